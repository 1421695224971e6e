"""Draw what tasks make of ELMo's layers: their shares in the mixes of fine-tuned models, as figure 2 of the paper.

    python examples/plot_layer_weights.py my-ner my-sentiment --output layers.png

Needs `pip install "elmo_hf[plot]"`.
"""

import argparse
import sys
from pathlib import Path

from matplotlib.figure import Figure

from elmo_hf import ElmoConfig, ElmoError, ElmoForSequenceClassification, ElmoForTokenClassification
from elmo_hf.files import check_new_file, naming_errors


TASKS = {cls.__name__: cls for cls in (ElmoForTokenClassification, ElmoForSequenceClassification)}


def read_weights(name: str) -> dict[str, list[float]]:
    """Read the shares of the layers in each mix of a fine-tuned model, by what to call it in the figure.

    Raises:
        ElmoError: If there is no such model, or it is not fine-tuned.
    """
    try:
        architecture = (ElmoConfig.from_pretrained(name).architectures or ["none"])[0]
        if architecture not in TASKS:
            raise ElmoError(f"{name} is no fine-tuned model but {architecture}: fine-tune it first.")
        model = TASKS[architecture].from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ElmoError(f"{name} cannot be loaded: {' '.join(str(error).split())}") from error
    short = Path(name).resolve().name if Path(name).exists() else name
    return {f"{short}, {place}": mix["weights"] for place, mix in model.layer_weights().items()}


def draw(weights: dict[str, list[float]]) -> Figure:
    """Draw a row of colours for each mix, a column for each layer, the token layer first."""
    most = max(map(len, weights.values()))
    # a model with fewer layers leaves the rest of its row empty
    shares = [row + [float("nan")] * (most - len(row)) for row in weights.values()]
    figure = Figure(figsize=(1.5 + most, 1 + 0.4 * len(shares)), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(most), ["token", *(f"LSTM {layer}" for layer in range(1, most))])
    axes.set_yticks(range(len(shares)), list(weights))
    for row, places in enumerate(weights.values()):
        for layer, share in enumerate(places):
            axes.text(layer, row, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.5 else "black")
    figure.colorbar(image, label="share of the layer")
    return figure


def main() -> None:
    """Read the models and write the figure."""
    parser = argparse.ArgumentParser(description="Draw the shares of the layers in the mixes of fine-tuned models.")
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a folder or a name on the Hub")
    parser.add_argument(
        "--output", type=Path, default=Path("layer_weights.png"), metavar="FILE", help="PNG, PDF or SVG"
    )
    options = parser.parse_args()
    check_new_file(options.output)
    weights = {label: row for name in options.models for label, row in read_weights(name).items()}
    figure = draw(weights)
    try:
        with naming_errors(options.output):
            figure.savefig(options.output, dpi=200)
    except ValueError as error:
        raise ElmoError(f"{options.output} cannot be written ({error}): name it .png") from error


if __name__ == "__main__":
    try:
        main()
    except ElmoError as error:
        sys.exit(f"plot_layer_weights.py: error: {error}")
