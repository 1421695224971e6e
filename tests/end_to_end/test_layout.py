"""Every module has its tests, every test its module, and the public names are those that are promised."""

import re
import tomllib
from pathlib import Path

import pytest

import elmo_hf
import elmo_hf_conversion


ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"

# modules without behaviour of their own
UNTESTED = {ROOT / "elmo_hf" / "model" / "outputs_elmo.py"}


def expected_test(module: Path) -> Path:
    """Return where the tests of a module are: under its own path, without the package's name."""
    relative = module.relative_to(ROOT)
    if relative.parts[0] == "elmo_hf":
        relative = relative.relative_to("elmo_hf")
    return TESTS / relative.with_name(f"test_{relative.name}")


MODULES = [
    path
    for folder in ("elmo_hf", "conversion", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path not in UNTESTED and not path.name.startswith("__")
]
# their measurements are not tested, only what they compute by themselves
BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
TEST_FILES = [
    path for path in sorted(TESTS.rglob("test_*.py")) if not {"upstream", "clients", "end_to_end"} & set(path.parts)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_has_tests_at_its_own_path(module: Path) -> None:
    assert expected_test(module).is_file()


@pytest.mark.parametrize("test_file", TEST_FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_every_test_file_is_at_the_path_of_a_module(test_file: Path) -> None:
    assert test_file in {expected_test(module) for module in [*MODULES, *BENCHMARKS]}


def test_public_names_of_the_package() -> None:
    assert elmo_hf.__all__ == [
        "ELMO_SMALL_EN",
        "ElmoConfig",
        "ElmoError",
        "ElmoForCoreferenceResolution",
        "ElmoForMaskedLM",
        "ElmoForMultipleChoice",
        "ElmoForPreTraining",
        "ElmoForQuestionAnswering",
        "ElmoForSequenceClassification",
        "ElmoForTokenClassification",
        "ElmoInt8Config",
        "ElmoModel",
        "ElmoPreTrainedModel",
        "ElmoTokenizer",
    ]


def test_public_names_of_the_conversion() -> None:
    assert elmo_hf_conversion.__all__ == [
        "ConversionError",
        "OriginalCheckpoint",
        "convert",
        "export",
        "read_original",
        "verify",
    ]


def test_every_public_name_is_there() -> None:
    assert all(hasattr(package, name) for package in (elmo_hf, elmo_hf_conversion) for name in package.__all__)


def test_the_changelog_has_the_version() -> None:
    assert f"## [{elmo_hf.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_oldest_versions_that_are_tried_are_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *extras["convert"], *extras["sentences"]]
    tried = re.findall(r"^\w.*", (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8"), re.MULTILINE)

    # torch is the exception: the builds of its older versions are too large to be tried each time
    assert {bound.split(",")[0].replace(">=", "==") for bound in bounds} - {"torch==2.6"} == set(tried)
