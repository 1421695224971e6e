"""`examples/plot_layer_weights.py` draws the shares of fine-tuned models, and refuses others."""

import runpy
import sys
from pathlib import Path

import pytest
from tiny_models import tiny_model

from elmo_hf import ELMO_TINY_EN, ElmoForSequenceClassification, ElmoForTokenClassification


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "plot_layer_weights.py"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["plot_layer_weights.py", *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_draws_a_row_for_each_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_model(
        ElmoForTokenClassification, head="bilstm-crf", mix_at="both", id2label={0: "a", 1: "b"}
    ).save_pretrained("tagger")
    # of one layer more
    tiny_model(ElmoForSequenceClassification, num_hidden_layers=3).save_pretrained("classifier")

    run(monkeypatch, "tagger", "classifier", "--output", "layers.png")

    assert Path("layers.png").read_bytes().startswith(b"\x89PNG")
    script = runpy.run_path(str(SCRIPT))
    weights = script["read_weights"]("tagger")
    assert list(weights) == ["tagger, input", "tagger, output"]
    # weights -1, 0, 1
    assert weights["tagger, input"] == pytest.approx([0.0900, 0.2447, 0.6652], abs=1e-4)
    axes = script["draw"]({**weights, **script["read_weights"]("classifier")}).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["token", "LSTM 1", "LSTM 2", "LSTM 3"]
    assert len(axes.texts) == 3 + 3 + 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(ELMO_TINY_EN)], r"elmo-tiny-en is no fine-tuned model but ElmoForPreTraining: fine-tune it first\.$"),
        (["absent"], r"absent cannot be loaded: .*$"),
        (["absent", "--output", "no/layers.png"], r"no is not a folder: create it first\.$"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=rf"^plot_layer_weights\.py: error: .*{message}"):
        run(monkeypatch, *arguments)


def test_an_unknown_format_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_model(ElmoForSequenceClassification).save_pretrained("classifier")

    with pytest.raises(SystemExit, match=r"error: layers\.nothing cannot be written \(.*\): name it \.png$"):
        run(monkeypatch, "classifier", "--output", "layers.nothing")
