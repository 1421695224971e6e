"""Parts of a corpus computed by the workers of Ray Data, on one machine or many.

The driver writes the sentences of each part into the folder of parts, which all workers must see (a shared disk, or
one machine); a worker writes the part beside them. What a worker was at when it failed, another one does again.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from elmo_hf.errors import ElmoError

from .parts import Line, read_lines_of, save_lines, save_part
from .vectors import Job, Wanted, compute_part, load, on_device


class PartWorker:
    """What a worker keeps between parts: the model.

    Args:
        folder: The model's.
        device: Where to compute, as torch calls it.
        wanted: What is to be computed.
    """

    def __init__(self, folder: str, device: str, wanted: tuple[Any, ...]) -> None:
        import torch

        # a worker has one core
        torch.set_num_threads(1)
        self.model, self.tokenizer = load(folder)
        on_device(self.model, device)
        self.wanted = Wanted(*wanted)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Compute a part and write it."""
        path = Path(row["path"])
        lines = read_lines_of(path)
        path.unlink(missing_ok=True)
        save_part(path, compute_part(self.model, self.tokenizer, lines, self.wanted))
        return {"path": row["path"], "words": sum(len(line.words) for line in lines)}


class RayEngine:
    """Computes parts on Ray, which is started on this machine unless a cluster is there (`RAY_ADDRESS`).

    Args:
        workers: How many there are; with the device `cuda` each has a GPU of its own, else a core.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __call__(self, parts: Iterable[tuple[Path, list[Line]]], job: Job, done: Callable[[int], object]) -> None:
        """Compute parts and write each to its path.

        Args:
            parts: Where each part is to be, and its sentences.
            job: What is to be computed, and by which model.
            done: Is told the number of words after each part.

        Raises:
            ElmoError: If Ray is not installed, or its workers fail time and again.
        """
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise ElmoError("The engine ray needs Ray: pip install 'elmo_hf[ray]'") from error
        rows = []
        for path, lines in parts:
            save_lines(path, lines)
            rows.append({"path": str(path.resolve())})
        if not rows:
            return
        if not ray.is_initialized():
            ray.init(logging_level="error", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        gpus = 1 if job.device.startswith("cuda") else 0
        computed = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            PartWorker,
            fn_constructor_args=(str(job.folder.resolve()), job.device, tuple(job.wanted)),
            compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(rows))),
            num_cpus=0 if gpus else 1,
            num_gpus=gpus,
        )
        try:
            for row in computed.iter_rows():
                done(row["words"])
        except ray.exceptions.RayError as error:
            raise ElmoError(f"Ray's workers fail ({' '.join(str(error).split())[-300:]}): see Ray's logs.") from error


__all__ = ["RayEngine"]
