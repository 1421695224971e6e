"""Copy a model folder with the code that it needs where this package is not installed."""

import shutil
from pathlib import Path

from transformers.dynamic_module_utils import custom_object_save

from elmo_hf.bundled import model_folder
from elmo_hf.errors import ElmoError, one_line
from elmo_hf.files import new_folder
from elmo_hf.inspection import read_config
from elmo_hf.model.modeling_elmo import AUTO_MAP, ElmoModel
from elmo_hf.model.tokenization_elmo import ElmoTokenizer

from .cards import CARD
from .sharing import OTHER_FILES


WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")

# what is copied as it is; configuration, tokenizer and code are written anew
KEPT = (*WEIGHTS, CARD, "provenance.json", *OTHER_FILES)

# bytes of the configuration, tokenizer and code
SLACK = 1 << 24


def copy_model(folder: str | Path, output: str | Path) -> None:
    """Copy a model folder, so that any script loads the copy with `trust_remote_code=True`.

    The copy has the same weights, to the byte, and the code of this version of the package: it also brings the code of
    an older folder up to date. Checkpoints of a training and other files are left out.

    Args:
        folder: The model folder, or `elmo-small-en`, which comes with the package.
        output: The folder to create; it appears once it is complete.

    Raises:
        ElmoError: If `folder` is no model folder, or `output` exists or cannot be written.
    """
    folder, output = model_folder(folder), Path(output)
    config = read_config(folder)
    files = sorted({path for pattern in KEPT for path in folder.glob(pattern)})
    if not any(path.suffix == ".safetensors" for path in files):
        raise ElmoError(f"{folder} has no weights in safetensors: load the model and save it there first.")
    try:
        tokenizer = ElmoTokenizer.from_pretrained(folder)
    except Exception as error:
        # Transformers raises anything at a damaged file
        raise ElmoError(f"The tokenizer in {folder} is missing or damaged: {one_line(error)}") from error
    with new_folder(output, size=sum(path.stat().st_size for path in files) + SLACK) as new:
        for path in files:
            shutil.copyfile(path, new / path.name)
        # all classes are in one module
        custom_object_save(ElmoModel, new)
        config.auto_map = dict(AUTO_MAP)
        config.save_pretrained(new)
        tokenizer.save_pretrained(new)


__all__ = ["copy_model"]
