"""Time and memory of converting a model of the size of the "original" release: 374 MB, 93.6 million parameters.

    python benchmarks/bench_convert.py

Writes a random HDF5 file of that shape to a temporary folder, converts it in a process of its own, and prints what
that process took, its imports included. The weights are random, which changes neither.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np


LSTM = {
    "cell_clip": 3,
    "dim": 4096,
    "n_layers": 2,
    "proj_clip": 3,
    "projection_dim": 512,
    "use_skip_connections": True,
}
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
CHARACTERS = {
    "activation": "relu",
    "embedding": {"dim": 16},
    "filters": FILTERS,
    "max_characters_per_token": 50,
    "n_characters": 262,
    "n_highway": 2,
}

# in the process that converts
MEASURE = """
import json, resource, sys, time
start = time.perf_counter()
from elmo_hf_conversion import convert
imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
convert(sys.argv[1:3], sys.argv[3])
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "imports": imported,
    "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
"""


def write_full_size(folder: Path) -> tuple[Path, Path]:
    """Write random weights in the shape of the "original" release, one array in memory at a time."""
    rng = np.random.default_rng(0)
    weights, options = folder / "weights.hdf5", folder / "options.json"
    with h5py.File(weights, "w") as file:
        for name, shape in full_size_shapes().items():
            file[name] = (0.05 * rng.standard_normal(shape, dtype=np.float32)).astype(np.float32)
    options.write_text(json.dumps({"bidirectional": True, "lstm": LSTM, "char_cnn": CHARACTERS}), encoding="utf-8")
    return weights, options


def full_size_shapes() -> dict[str, tuple[int, ...]]:
    """List every array of the release."""
    width = sum(number for _, number in FILTERS)
    shapes: dict[str, tuple[int, ...]] = {
        "char_embed": (261, 16),
        "CNN_proj/W_proj": (width, 512),
        "CNN_proj/b_proj": (512,),
    }
    for i, (span, number) in enumerate(FILTERS):
        shapes |= {f"CNN/W_cnn_{i}": (1, span, 16, number), f"CNN/b_cnn_{i}": (number,)}
    for k in range(2):
        for part in ("carry", "transform"):
            shapes |= {f"CNN_high_{k}/W_{part}": (width, width), f"CNN_high_{k}/b_{part}": (width,)}
    for direction in range(2):
        for layer in range(2):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (1024, 16384), f"{cell}/B": (16384,), f"{cell}/W_P_0": (4096, 512)}
    return shapes


def main() -> None:
    """Write, convert, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="how often to convert")
    repeat = parser.parse_args().repeat
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "h5py"))
    print(f"{platform.machine()}, {os.cpu_count()} cores; {libraries}")
    with tempfile.TemporaryDirectory() as name:
        weights, options = write_full_size(Path(name))
        size = weights.stat().st_size
        for i in range(repeat):
            output = Path(name) / f"model-{i}"
            command = [sys.executable, "-c", MEASURE, str(weights), str(options), str(output)]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            measured = json.loads(run.stdout.splitlines()[-1])
            # Linux counts in units of 1,024 bytes
            peak, imports = measured["peak"] * 1024, measured["imports"] * 1024
            print(
                f"{size / 1e6:.1f} MB in {measured['seconds']:.1f} s; peak {peak / 1e6:.0f} MB = {peak / size:.2f} "
                f"times the file, of which imports {imports / 1e6:.0f} MB"
            )


if __name__ == "__main__":
    main()
