"""Run Transformers' own test suite against this package: `python tests/upstream/run.py [pytest arguments]`.

The wheel of Transformers has no tests, but its source distribution has the mixins that every model, tokenizer and
configuration of the library passes. This takes those of exactly the version that `constraints.txt` pins, lays them
out as the package `transformers_tests` in a temporary folder, and runs the `test_*.py` beside this file, which inherit
from them. The archive is kept in `~/.cache/elmo_hf`, or in `$ELMO_HF_CACHE`.
"""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE.parents[1] / "constraints.txt"

# sha256 of the source distribution of each version that this suite was made to pass with
SHA256 = {"5.24.0": "906cb8c3cb2123575e263962586a4d21a979ce97feeb95fe6aaf66fe6ae88bf3"}

SUITE = (
    "test_modeling_common.py",
    "test_tokenization_common.py",
    "test_configuration_common.py",
    "test_sentencepiece_backend_mixin.py",
    "test_tokenizers_backend_mixin.py",
)

# what the files above need and the source distribution leaves out
STUBS = {
    "__init__.py": "",
    "exporters/__init__.py": "",
    "exporters/test_export.py": "class ExportTesterMixin: pass\n",
    "generation/__init__.py": "",
    "generation/test_utils.py": "class GenerationTesterMixin: pass\n",
    "utils/__init__.py": "",
    # values other than the defaults of the fields that every configuration inherits
    "utils/test_configuration_utils.py": """config_common_kwargs = {
        "architectures": ["ElmoModel"],
        "chunk_size_feed_forward": 5,
        "dtype": "float16",
        "id2label": {0: "label"},
        "label2id": {"label": 0},
        "output_hidden_states": True,
        "problem_type": "regression",
        "return_dict": False,
    }""",
    "fixtures/sample_text.txt": "A sentence .\n",
}


def pinned_version() -> str:
    """Read the version of Transformers in `constraints.txt`, and check that it is the installed one."""
    match = re.search(r"^transformers==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"{CONSTRAINTS} pins no version of transformers.")
    if match[1] not in SHA256:
        raise SystemExit(f"Add the sha256 of transformers-{match[1]}.tar.gz to {__file__}.")
    installed = importlib.metadata.version("transformers")
    if installed != match[1]:
        raise SystemExit(f"transformers {installed} is installed: install {match[1]}, as pinned.")
    return match[1]


def fetch_source(version: str) -> Path:
    """Return the source distribution of Transformers, from the cache or else from the package index."""
    cache = Path(os.environ.get("ELMO_HF_CACHE", "~/.cache/elmo_hf")).expanduser()
    archive = cache / f"transformers-{version}.tar.gz"
    if not archive.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "transformers"]
            subprocess.run([*pip, "--dest", folder, f"transformers=={version}"], check=True)
            (Path(folder) / archive.name).replace(archive)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256[version]:
        raise SystemExit(f"{archive} has sha256 {digest}, not {SHA256[version]}: delete it and run again.")
    return archive


def lay_out(archive: Path, folder: Path) -> None:
    """Write the suite and the stubs as a package in `folder`."""
    root = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as source:
        files = {name: source.extractfile(f"{root}/tests/{name}") for name in SUITE}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    for name, text in STUBS.items():
        contents[name] = text.encode()
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def main() -> int:
    """Run the suite, and return pytest's exit code."""
    archive = fetch_source(pinned_version())
    # no test may reach the network, and those that are slow for a large tokenizer or model are quick for a tiny one
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "warning", "RUN_SLOW": "1"}
    with tempfile.TemporaryDirectory() as folder:
        # Transformers looks for its fixtures in the nearest folder above whose name ends in "tests"
        lay_out(archive, Path(folder) / "transformers_tests")
        pytest_command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "-o", f"pythonpath={folder}"]
        return subprocess.run([*pytest_command, str(HERE), *sys.argv[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
