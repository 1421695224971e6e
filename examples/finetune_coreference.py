"""Fine-tune ELMo to find the mentions of the same thing in documents.

    python examples/finetune_coreference.py train.jsonl --dev dev.jsonl --test test.jsonl --epochs 30 --output DIR
    python examples/finetune_coreference.py train.v4_gold_conll --dev dev.v4_gold_conll --output DIR
    python examples/finetune_coreference.py --model DIR --test other.jsonl --output scores

CoNLL-2012's columns, or JSON Lines with the sentences and clusters of a document on each line. A training step reads
one document, of a long one a part, which differs from epoch to epoch. Clusters of a single mention are dropped, as
OntoNotes marks none, unless you say `--keep-singletons`: the model finds none, so that they then lower the scores. The
scores are those of the reference scorer: MUC, B-cubed, CEAF-phi4, and `conll`, their mean. The biLM is left as it is
unless you say `--unfreeze`; the vectors of a frozen one are computed once, before the first epoch, in float16. Needs
`pip install "elmo_hf[finetune]"`. Run again with `--resume`, an interrupted training goes on from its last checkpoint
to the same result. `dev_predictions.jsonl` and `test_predictions.jsonl` in the output have the documents with the
clusters that were found. `--gap FILE` measures the model on GAP's pronouns as well.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from transformers import EvalPrediction, TrainingArguments

from elmo_hf import ElmoError, ElmoForCoreferenceResolution, ElmoTokenizer
from elmo_hf.data.coreference import (
    Cluster,
    Document,
    drop_singletons,
    load_documents,
    read_documents,
    write_json_documents,
)
from elmo_hf.data.coreference_scores import score_clusters
from elmo_hf.data.gap import Pronoun, read_gap, score_gap
from elmo_hf.data.segmentation import SentenceSplitter
from elmo_hf.files import naming_errors
from elmo_hf.model.coreference_elmo import find_clusters
from elmo_hf.prediction.documents import resolve_gap
from elmo_hf.training.documents import CutDocuments, DocumentCollator, encode_document
from elmo_hf.training.finetuning import finish, load_with_vectors, predict, prepare, train
from elmo_hf.training.finetuning_options import FineTuningOptions, add_options, at_least, parse_options, read_splits


try:
    # without it, `Trainer` stops
    import accelerate  # noqa: F401
except ImportError as error:
    sys.exit(f'finetune_coreference.py: error: {error.name} is not installed: pip install "elmo_hf[finetune]"')

# the rows of the table of scores
TABLE = {"mentions": "mentions", "muc": "MUC", "b_cubed": "B-cubed", "ceaf_e": "CEAF-phi4"}

MODEL_FIELDS = ("max_span_width", "spans_per_word", "max_antecedents", "refinement_passes", "use_speakers")


@dataclass(frozen=True, kw_only=True)
class CoreferenceOptions(FineTuningOptions):
    """The options of this script.

    Attributes:
        gap: The file of GAP to measure on at the end.
        max_sentences: The most sentences of a document that a training step reads.
        keep_singletons: Whether clusters of a single mention stay.
        max_span_width: The most words of a mention; `None` keeps the model's own number.
        spans_per_word: How many spans the model takes for mentions, for each word; `None` keeps its own number.
        max_antecedents: How many earlier spans it compares with each; `None` keeps its own number.
        refinement_passes: How often it refines spans; `None` keeps its own number.
        use_speakers: Whether it reads speakers; `None` keeps what it does.
    """

    own_job_options: ClassVar[tuple[str, ...]] = ("max_sentences", "keep_singletons", *MODEL_FIELDS)

    gap: str | None = None
    max_sentences: int = 50
    keep_singletons: bool = False
    max_span_width: int | None = None
    spans_per_word: float | None = None
    max_antecedents: int | None = None
    refinement_passes: int | None = None
    use_speakers: bool | None = None

    def model_fields(self) -> dict[str, Any]:
        """Return the fields of the configuration that the options set."""
        return super().model_fields() | {name: getattr(self, name) for name in MODEL_FIELDS}

    def training_arguments(self, best: str, *, evaluate: bool) -> TrainingArguments:
        """Return the arguments of Trainer: parts of documents are of one length as it is."""
        arguments = super().training_arguments(best, evaluate=evaluate)
        arguments.train_sampling_strategy = "random"
        return arguments


def parse_arguments() -> CoreferenceOptions:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = add_options(
        parser,
        ElmoForCoreferenceResolution,
        formats="CoNLL-2012's columns, or JSON Lines with sentences and clusters",
        usual_head="coarse-to-fine, the only one",
        learning_rate=1e-3,
        has_labels=False,
        batch_size=1,
        inputs="documents",
    )
    data.add_argument(
        "--max-sentences",
        type=at_least(1),
        default=50,
        metavar="N",
        help="most sentences of a document that a step reads (default: %(default)s)",
    )
    data.add_argument(
        "--gap",
        metavar="FILE",
        help='measure on a file of GAP, too, by pronoun; needs pip install "elmo_hf[sentences]"',
    )
    data.add_argument("--keep-singletons", action="store_true", help="keep clusters of a single mention")
    model = parser.add_argument_group("coreference")
    for name, kind, text in (
        ("--max-span-width", at_least(1), "most words of a mention (default: 10)"),
        ("--spans-per-word", at_least(0.0, above=True), "spans taken for mentions, for each word (default: 0.4)"),
        ("--max-antecedents", at_least(1), "earlier spans that each is compared with (default: 50)"),
        ("--refinement-passes", at_least(0), "1 is the second-order model (default: 0)"),
    ):
        model.add_argument(name, type=kind, metavar="N", help=text)
    model.add_argument(
        "--use-speakers", action="store_const", const=True, help="read who says each word, where the data has it"
    )
    return parse_options(parser, CoreferenceOptions)


def clusters_of(labels: np.ndarray) -> list[Cluster]:
    """Return the clusters of labels `[M, 3]`, padded with -100."""
    clusters: dict[int, Cluster] = {}
    for first, last, number in labels.tolist():
        if first >= 0:
            clusters.setdefault(number, []).append((first, last))
    return list(clusters.values())


def found_clusters(prediction: EvalPrediction) -> list[list[Cluster]]:
    """Return the clusters that were found in each document."""
    scores, antecedents, spans, *_ = map(torch.as_tensor, prediction.predictions)
    return [find_clusters(*of_document) for of_document in zip(spans, antecedents, scores, strict=True)]


def score(prediction: EvalPrediction) -> dict[str, float]:
    """Score what was found as the reference scorer does."""
    marked = [clusters_of(np.asarray(labels)) for labels in prediction.label_ids]
    return score_clusters(zip(marked, found_clusters(prediction), strict=True))


def make_table(scores: dict[str, float]) -> str:
    """Return a table of all scores."""
    lines = ["              precision   recall       F1"]
    for name, shown in TABLE.items():
        parts = [scores[f"{name}_{kind}"] for kind in ("precision", "recall", "f1")]
        lines.append(f"{shown:<12}" + "".join(f"{part:10.4f}" for part in parts))
    return "\n".join([*lines, f"{'mean of F1':<12}{'':20}{scores['conll']:10.4f}"])


def measure_gap(
    examples: Sequence[Pronoun],
    splitter: SentenceSplitter | None,
    model: ElmoForCoreferenceResolution,
    tokenizer: ElmoTokenizer,
    folder: Path,
) -> str:
    """Score a model on GAP, save the figures, and return a table of them."""
    torch.nn.Module.eval(model)
    found = resolve_gap(model, tokenizer, examples, splitter=splitter)
    scores = score_gap(examples, found)
    with naming_errors(folder / "gap_results.json"):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({f"gap_{name}": value for name, value in scores.items()}, indent=4)
        (folder / "gap_results.json").write_text(f"{text}\n", encoding="utf-8")
    lines = ["GAP           precision   recall       F1"]
    for name, prefix in (("all", ""), ("masculine", "masculine_"), ("feminine", "feminine_")):
        parts = [scores[f"{prefix}{kind}"] for kind in ("precision", "recall", "f1")]
        lines.append(f"{name:<12}" + "".join(f"{part:10.4f}" for part in parts))
    return "\n".join([*lines, f"{'bias':<12}{'':20}{scores['bias']:10.4f}"])


def write_predictions(path: Path, documents: Sequence[Document], found: Sequence[list[Cluster]]) -> None:
    """Write the documents with the clusters that were found."""
    with naming_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            pairs = zip(documents, found, strict=True)
            write_json_documents((document._replace(clusters=clusters) for document, clusters in pairs), file)


def main() -> None:
    """Train, evaluate and save."""
    options = parse_arguments()
    prepare(options)
    splits = read_splits(options, read_documents, load_documents)
    # before the training, which would be lost if they cannot be had
    pronouns = [] if options.gap is None else read_gap(options.gap)
    splitter = SentenceSplitter("en") if pronouns else None
    if not options.keep_singletons:
        splits = {name: [drop_singletons(document) for document in part] for name, part in splits.items()}
    if not any(document.clusters for document in splits.get("train", [])) and "train" in splits:
        raise ElmoError(
            f"{options.source_of('train')} has no clusters{'' if options.keep_singletons else ' of two mentions'}: "
            "give documents in which they are marked."
        )
    model, tokenizer = load_with_vectors(
        ElmoForCoreferenceResolution,
        options,
        {name: [words for document in part for words in document.sentences] for name, part in splits.items()},
        (),
    )
    speakers = model.config.use_speakers
    trainer, rows = train(
        options,
        model,
        tokenizer,
        {
            name: [encode_document(document, tokenizer, speakers=speakers) for document in part]
            for name, part in splits.items()
        },
        DocumentCollator(tokenizer),
        "conll",
        vary=lambda part: CutDocuments(part, options.max_sentences),
        compute_metrics=score,
    )
    scores: dict[str, dict[str, float]] = {}
    report = ""
    for split in [name for name in rows if name != "train"]:
        output, metrics = predict(trainer, rows[split], split)
        scores[split] = {"conll": metrics["conll"]} | {f"{name}_f1": metrics[f"{name}_f1"] for name in TABLE}
        report = make_table(metrics)
        if trainer.is_world_process_zero():
            print(report)
            if metrics["mentions_recall"] == 0:
                print(f"note: none of the mentions of {split} was found: train longer, or on more documents")
            found = found_clusters(EvalPrediction(output.predictions, output.label_ids))
            write_predictions(options.output / f"{split}_predictions.jsonl", splits[split], found)
    if trainer.is_world_process_zero() and pronouns:
        table = measure_gap(pronouns, splitter, model, tokenizer, options.output)
        print(table)
        report = f"{report}\n\n{table}".strip()
    finish(options, trainer, model, scores, report=report)


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"finetune_coreference.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("finetune_coreference.py: interrupted: the same command with --resume goes on")
