"""The page, by Gradio: a visitor writes sentences, picks a word, and sees in each tab what the model makes of it.

A tab computes nothing by itself: it shows what `tabs` writes, or one line in its place.
"""

import socket
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from elmo_hf.bundled import NAME
from elmo_hf.errors import ElmoError, counted, one_line
from elmo_hf.training.filling import MASK

from .models import DemoModel, load_model
from .tables import error_line
from .tabs import (
    REFUSALS,
    Applied,
    answer,
    first_choice,
    read,
    sentence_of,
    show_fillings,
    show_layers,
    show_neighbours,
    show_scores,
    show_similarity,
)
from .text import MOST_BYTES, MOST_SENTENCES, MOST_WORDS, Sentences, read_file


try:
    import gradio as gr
except ImportError as error:
    raise ImportError('The page needs Gradio: pip install "elmo_hf[demo]"') from error

#: The address that only this machine can reach.
THIS_MACHINE = "127.0.0.1"
# one computation at a time, whoever asks for it, and the last choice of a visitor counts
ONE_AT_A_TIME: dict[str, Any] = {
    "concurrency_id": "elmo",
    "concurrency_limit": 1,
    "trigger_mode": "always_last",
    "api_visibility": "private",
}

EXAMPLE = f"""\
he left the house .
she left the room at night .
my brother left the town .
turn to the left hand .
on the left side of the street .
the school is on the left bank of the river .
I can not bear this pain .
they must bear the burden .
the bear killed a sheep .
a bear lives in the forest .
the old {MASK} lives in the forest ."""

INTRODUCTION = """\
# Words in context

ELMo gives each word of a sentence a vector that depends on the whole sentence. Write sentences, pick a word, and see
what the model makes of it."""


class Tab(NamedTuple):
    """A tab of the page.

    Attributes:
        show: Makes its content of the model, the sentences, the picked word, and the choices.
        choices: What a visitor can choose in the tab.
        output: Where the content is shown.
    """

    show: Callable[..., str]
    choices: list[gr.Radio | gr.Dropdown | gr.Checkbox]
    output: gr.HTML


def _apply(applied: Applied, name: str, text: str) -> list[Any]:
    """Read a model and a text.

    Args:
        applied: What was read before.
        name: The model.
        text: The text.

    Returns:
        Both, a line that says what was read, and the new choices of the sentence, the word, the second sentence, and
        the two layers; or, if they cannot be read, the line that says why, and no change.
    """
    try:
        model, sentences = read(name, text)
    except REFUSALS as error:
        shown = "" if applied is None else " The results are still those of the last text."
        return [gr.skip(), error_line(f"{one_line(error)}{shown}"), *[gr.skip()] * 5]
    size = f"{counted(len(sentences), 'sentence')}, {counted(sum(map(len, sentences)), 'word')}"
    labels = [(f"{i + 1}. {' '.join(model.shown(words))}", i) for i, words in enumerate(sentences)]
    layers: dict[str, Any] = {"choices": list(model.layers), "value": next(iter(model.layers))}
    return [
        (name, text),
        f"{size}. {escape(model.describe())}.",
        gr.update(choices=labels, value=0),
        _choose_word(model, sentences, 0),
        gr.update(choices=labels, value=min(1, len(sentences) - 1)),
        # Gradio changes what it is given
        gr.update(**layers),
        gr.update(**layers),
    ]


def _choose_sentence(applied: Applied, sentence: int) -> Any:
    """Return the words of a sentence as the new choices of the word."""
    if applied is None:
        return gr.skip()
    model, sentences = read(*applied)
    sentence_of(sentences, sentence)
    return _choose_word(model, sentences, sentence)


def _choose_word(model: DemoModel, sentences: Sentences, sentence: int) -> Any:
    words = model.shown(sentences[sentence])
    value = first_choice(sentences, sentence, model.mask)
    return gr.update(choices=[(word, position) for position, word in enumerate(words)], value=value)


def _open(path: str) -> str:
    """Return the text of a loaded file; Gradio shows the line that says why it cannot be read."""
    try:
        return read_file(path)
    except REFUSALS as error:
        raise gr.Error(one_line(error), title="", print_exception=False) from error


def build_page(models: Sequence[str] = (NAME,), *, any_model: bool = False) -> gr.Blocks:
    """Build the page.

    Args:
        models: The models that a visitor can choose: folders, `elmo-small-en`, or names on the Hub.
        any_model: Whether a visitor may type another folder of this machine, or another name.
    """
    with gr.Blocks(title="ELMo: words in context", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        gr.Markdown(INTRODUCTION)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                given = _add_text(models, any_model)
            with gr.Column(scale=3, min_width=320):
                sentence = gr.Dropdown(label="Sentence", type="value", filterable=False)
                word = gr.Radio(label="Word", elem_classes="elmo-words")
                tabs = _add_tabs()
        _connect(page, given, sentence, word, tabs)
    return page


class _Given(NamedTuple):
    """What a visitor gives."""

    model: gr.Dropdown
    text: gr.Textbox
    file: gr.UploadButton
    button: gr.Button
    status: gr.HTML


def _add_text(models: Sequence[str], any_model: bool) -> _Given:
    model = gr.Dropdown(
        list(models),
        value=models[0],
        label="Model",
        info="Choose one, or type a model folder or a name on the Hub." if any_model else None,
        allow_custom_value=any_model,
        visible=any_model or len(models) > 1,
    )
    text = gr.Textbox(
        EXAMPLE,
        label="Sentences",
        info=f"One a line, up to {MOST_SENTENCES} of up to {MOST_WORDS} words. {MASK} stands for a missing word.",
        lines=11,
        max_lines=16,
        # a longer paste is cut without a word; up to here it is refused with one
        max_length=MOST_BYTES,
    )
    with gr.Row():
        button = gr.Button("Update", variant="primary", min_width=140)
        file = gr.UploadButton("Load a file", file_types=[".txt"], min_width=140)
    return _Given(model, text, file, button, gr.HTML(elem_classes="elmo-status", apply_default_css=False))


def _add_tabs() -> list[Tab]:
    with gr.Tabs(overflow_behavior="wrap"):
        with gr.Tab("Neighbours"):
            gr.Markdown("The words of your other sentences whose vectors are most like that of the word.")
            layer, distinct = _layer_choice(), gr.Checkbox(label="Show each word only once")
            neighbours = Tab(show_neighbours, [layer, distinct], _content())
        with gr.Tab("Similarity"):
            gr.Markdown("How alike the words of the sentence and of a second one are: the deeper the blue, the more.")
            second = gr.Dropdown(label="Second sentence", filterable=False)
            similarity = Tab(show_similarity, [second, _layer_choice()], _content())
        with gr.Tab("Fill in"):
            gr.Markdown(
                "What the model expects in place of the word. It reads what is on the left and on the right, and not "
                "the word itself."
            )
            fillings = Tab(show_fillings, [], _content())
        with gr.Tab("Perplexity"):
            gr.Markdown(
                "How unsure the model was of each word, read from the left (forward) and from the right (backward): "
                "at 1 it was certain, and at 1,000 as unsure as among 1,000 equally likely words."
            )
            scores = Tab(show_scores, [], _content())
        with gr.Tab("Layers"):
            gr.Markdown(
                "How similar the word is to others in each layer. The token layer knows only how a word is spelled; "
                "the layers above it read the sentence."
            )
            layers = Tab(show_layers, [], _content())
    return [neighbours, similarity, fillings, scores, layers]


def _layer_choice() -> gr.Radio:
    return gr.Radio(label="Vectors from", info="The mix is the weighted mean of all layers.")


def _content() -> gr.HTML:
    return gr.HTML(min_height=200, apply_default_css=False)


def _connect(page: gr.Blocks, given: _Given, sentence: gr.Dropdown, word: gr.Radio, tabs: Sequence[Tab]) -> None:
    """Say what is computed when."""
    applied = gr.State(None)
    picked = [applied, sentence, word]

    def show(tab: Tab, event: Callable[..., Any]) -> None:
        event(answer(tab.show), [*picked, *tab.choices], tab.output, show_progress="minimal", **ONE_AT_A_TIME)

    def show_all(event: Callable[..., Any]) -> None:
        for tab in tabs:
            show(tab, event)

    def apply(event: Callable[..., Any]) -> None:
        neighbours, similarity, *_ = tabs
        layer, (second, other_layer) = neighbours.choices[0], similarity.choices
        outputs = [applied, given.status, sentence, word, second, layer, other_layer]
        read_now = event(
            _apply, [applied, given.model, given.text], outputs, show_progress_on=given.status, **ONE_AT_A_TIME
        )
        show_all(read_now.then)

    apply(page.load)
    apply(given.button.click)
    apply(given.model.input)
    apply(given.file.upload(_open, given.file, given.text, **ONE_AT_A_TIME).success)
    show_all(sentence.input(_choose_sentence, [applied, sentence], word, show_progress="hidden", **ONE_AT_A_TIME).then)
    show_all(word.input)
    for tab in tabs:
        for choice in tab.choices:
            show(tab, choice.input)


def _theme() -> gr.themes.Base:
    """Return Gradio's theme with colours that can be read on each other, and fonts from this machine."""
    # the semi-bold file that Gradio asks for by default has few letters
    font = gr.themes.LocalFont("Source Sans Pro", weights=(400, 700))
    return gr.themes.Default(primary_hue="teal", neutral_hue="slate", font=[font, "system-ui", "sans-serif"]).set(
        color_accent="*primary_700",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
    )


def _check_address(host: str, port: int | None) -> None:
    """Check that this machine can serve there; Gradio would try a hundred ports before it says so."""
    try:
        socket.create_server((host, port or 0)).close()
    except OSError as error:
        where = host if port is None else f"{host}, port {port}"
        raise ElmoError(f"The page cannot be served at {where} ({one_line(error)}): choose another.") from error


def start(
    models: Sequence[str] = (NAME,), *, host: str = THIS_MACHINE, port: int | None = None, open_browser: bool = False
) -> gr.Blocks:
    """Load the models, and serve the page; nothing is sent to, or loaded from, another server.

    Visitors on this machine may also type other models; visitors from elsewhere choose among those that you name.

    Args:
        models: As for `build_page`.
        host: The address that the page is served at; `0.0.0.0` for all of this machine.
        port: Its port; by default the first free one from 7860.
        open_browser: Whether to open the page in a browser.

    Returns:
        The page: `page.local_url` is its address, and `page.block_thread()` waits until the user interrupts.

    Raises:
        ElmoError: If there is no such model, or the page cannot be served there.
    """
    for name in models:
        load_model(name)
    _check_address(host, port)
    page = build_page(models, any_model=host in (THIS_MACHINE, "localhost"))
    page.launch(
        server_name=host,
        server_port=port,
        inbrowser=open_browser,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        ssr_mode=False,
        footer_links=[],
        max_file_size=MOST_BYTES,
        theme=_theme(),
        css_paths=Path(__file__).with_name("page.css"),
    )
    return page


__all__ = ["build_page", "start"]
