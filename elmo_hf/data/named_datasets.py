"""Data sets by their name on the Hub or their folder, which the library datasets loads."""

from typing import Any

from elmo_hf.errors import ElmoError, one_line


def load_split(name: str, config: str | None, split: str) -> Any:
    """Load one split of a data set.

    Args:
        name: The name on the Hub, or a folder.
        config: The configuration of the data set, if it has several.
        split: The name of the split, such as `"train"`.

    Raises:
        ElmoError: If the library is not installed, or there is no such data set or split.
    """
    try:
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    except ImportError as error:
        raise ElmoError("A data set by name needs the library datasets: pip install datasets") from error
    try:
        return load_dataset(name, config, split=split)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise ElmoError(
            f"{name} cannot be loaded ({one_line(error)}): check its name, configuration and split."
        ) from error


def class_names(feature: Any) -> list[str] | None:
    """Return the names of the classes of a column, or of a column of lists, or `None` if it has no classes."""
    return getattr(getattr(feature, "feature", feature), "names", None)


__all__ = ["class_names", "load_split"]
