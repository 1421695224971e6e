"""Use the installed wheel with no more than its own dependencies, and without a compiler."""

import ctypes
import importlib
import importlib.util
import pkgutil
import shutil

import torch
from transformers import AutoConfig, AutoModel

import elmo_hf
from elmo_hf.kernels import native


assert importlib.util.find_spec("h5py") is None, "the environment should only have what the package itself needs"
assert "site-packages" in elmo_hf.__file__, elmo_hf.__file__
assert not any(map(shutil.which, ("cc", "c++", "gcc", "g++", "clang++"))), "there should be no compiler"
assert isinstance(native.load(), ctypes.CDLL), native.load()
# a level that does not compile is left out, which only a log of the build tells
built = {path.name.split(".")[0] for path in native.FOLDER.glob("*.so")}
assert built in ({"plain"}, {*native.LEVELS} - {"plain"}), f"the wheel has the levels {built}"

# what a module of a tool's classes says where the tool is missing
TOOLS = {
    "elmo_hf.demo.page": "elmo_hf[demo]",
    "elmo_hf.integrations.spacy_component": "elmo_hf[spacy]",
    "elmo_hf.integrations.vectorizer": "elmo_hf[sklearn]",
}
# torch brings it along, or does not
TRITON = {"elmo_hf.kernels.triton_kernels": "Triton is not installed"}

for module in pkgutil.walk_packages(elmo_hf.__path__, "elmo_hf."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        if {**TRITON, **TOOLS}.get(module.name, "no extra") not in str(error):
            raise
        TOOLS.pop(module.name, None)
assert not TOOLS, f"{', '.join(TOOLS)} should need a tool that is not here"

config = AutoConfig.for_model("elmo", hidden_size=8, intermediate_size=6, char_filters=[[1, 4]], num_highway_layers=1)
model = AutoModel.from_config(config).eval()
char_ids = torch.ones(1, 3, config.max_characters_per_token, dtype=torch.long)
assert model(char_ids=char_ids).last_hidden_state.shape == (1, 3, 8)
