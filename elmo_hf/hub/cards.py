"""Model cards as text: render one, read or complete its metadata, recognise one that nobody has edited."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import RepoCard
from huggingface_hub.repocard_data import CardData

from elmo_hf.errors import ElmoError, one_line


CARD = "README.md"

# name of the model in the examples of a card, until `elmo-hf push` knows its name on the Hub
PLACEHOLDER = "path/to/this/folder"

# last line of a generated card, with a hash of the text above it
MARK = "<!-- made by elmo-hf {} -->\n"
MARKED = re.compile(r"\n<!-- made by elmo-hf ([0-9a-f]{16}) -->\s*\Z")

# metadata between two lines of ---, at the beginning of a card
HEAD = re.compile(r"\A(\s*---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)

# `Trainer` tags its cards with it
TRAINER_TAG = "generated_from_trainer"


@dataclass(frozen=True)
class Card:
    """Content of a model card; `render_card` writes it.

    Attributes:
        title: Heading of the card.
        blocks: Paragraphs, tables, code and headings (`"## Use"`) in Markdown, in order; `table` and `code_block`
            make some of them.
        metadata: Head of the card.
        generated: Whether the files of the folder determine the whole text. `elmo-hf push` replaces a generated card
            by a newer one as long as nobody has edited it (`is_unedited`), and keeps every other card.
    """

    title: str
    blocks: Sequence[str]
    metadata: CardData
    generated: bool = False


def render_card(card: Card) -> str:
    """Write a model card, the text of a README.md.

    Every card of this package comes from here: of a converted, of a fine-tuned and of a published model.

    Args:
        card: Its content.

    Returns:
        Metadata and text; at the end of a generated card, the mark by which `is_unedited` recognises it.
    """
    text = "\n\n".join([f"# {card.title}", *(block.strip("\n") for block in card.blocks)]) + "\n"
    mark = "\n" + MARK.format(_digest(text)) if card.generated else ""
    return f"---\n{card.metadata.to_yaml()}\n---\n\n{text}{mark}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table in Markdown.

    Args:
        header: Titles of the columns.
        rows: Cells of each row; line breaks become spaces, and vertical bars are escaped.
    """
    return "\n".join([_table_row(header), "|" + "---|" * len(header), *map(_table_row, rows)])


def _table_row(cells: Sequence[object]) -> str:
    texts = (" ".join(str(cell).split()).replace("|", "\\|") for cell in cells)
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"


def code_block(code: str, language: str = "") -> str:
    """Write a block of code in Markdown."""
    return f"```{language}\n{code.strip(chr(10))}\n```"


def split_card(text: str) -> tuple[str, dict[str, Any]]:
    """Separate the text of a card from its metadata.

    Args:
        text: The card, with or without metadata.

    Returns:
        The text after the metadata, and the metadata by name.

    Raises:
        ElmoError: If the metadata are not a YAML mapping.
    """
    head = HEAD.match(text)
    if head is None:
        return text, {}
    try:
        return text[head.end() :], RepoCard(f"---\n{head[2]}\n---\n").data.to_dict()
    except Exception as error:
        # the YAML and each of its fields can fail in their own ways
        raise ElmoError(f"{CARD} has metadata that cannot be read ({one_line(error)}): correct them.") from error


def complete_card(text: str, name: str, wanted: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Add missing metadata to a card, and put the name of the model into its examples; keep the rest.

    Args:
        text: The card.
        name: Name of the model on the Hub, which replaces `PLACEHOLDER`.
        wanted: Metadata to add where the card lacks them; empty values are ignored.

    Returns:
        The card, and the names of the metadata that were added.

    Raises:
        ElmoError: If the metadata of the card cannot be read.
    """
    text = text.removeprefix("\ufeff").replace(PLACEHOLDER, name)
    _, known = split_card(text)
    missing = {key: value for key, value in wanted.items() if value and not known.get(key)}
    if not missing:
        return text, []
    end = "\r\n" if "\r\n" in text else "\n"
    added = CardData(**missing).to_yaml(line_break=end).rstrip() + end
    head = HEAD.match(text)
    if head is None:
        return f"---{end}{added}---{end}{end}{text}", list(missing)
    kept = _without_empty(head[2], missing)
    return head[1] + kept + added + head[3] + text[head.end() :], list(missing)


def _without_empty(yaml: str, keys: Iterable[str]) -> str:
    """Remove keys that have no value; adding them would make them duplicates."""
    names = "|".join(map(re.escape, keys))
    return re.sub(rf"^(?:{names}):[ \t]*(?:null|~|\[\]|)[ \t]*\r?\n", "", yaml, flags=re.MULTILINE)


def is_unedited(card: str) -> bool:
    """Tell whether a card was generated and nobody has changed its text since; its metadata may have changed."""
    text = split_card(card)[0]
    mark = MARKED.search(text)
    return mark is not None and _digest(text[: mark.start()]) == mark[1]


def _digest(text: str) -> str:
    """Compute a hash of a text that does not depend on its white space, such as line endings."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class KeepsCard:
    """Mixin for a subclass of `Trainer` that keeps your model card.

    `Trainer.push_to_hub` overwrites the card in the output folder with its own. With this class before `Trainer` among
    the bases, it only replaces a card that `Trainer` has made.
    """

    args: Any

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write the card of `Trainer` if the folder has none, or has one that `Trainer` made."""
        path = Path(self.args.output_dir) / CARD
        tags = split_card(path.read_text(encoding="utf-8"))[1].get("tags") if path.is_file() else [TRAINER_TAG]
        if TRAINER_TAG in (tags or []):
            super().create_model_card(*args, **kwargs)  # type: ignore[misc]


__all__ = [
    "CARD",
    "PLACEHOLDER",
    "Card",
    "KeepsCard",
    "code_block",
    "complete_card",
    "is_unedited",
    "render_card",
    "split_card",
    "table",
]
