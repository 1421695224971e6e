"""Compute the parts of a corpus with the workers of Ray Data, on one machine or many.

The driver writes the sentences of each part to the folder of parts, which all workers must see (on a shared disk, or
because there is one machine). A worker writes the part beside them. A failed worker's part is retried.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elmo_hf.errors import ElmoError, one_line

from .engines import CorpusOptions, PartEmbedder
from .parts import UnfinishedPart, read_unfinished_part, save_part, save_sentences
from .vectors import Progress


class PartWorker:
    """A worker, which loads the model once and then computes one part after the other.

    Args:
        folder: The model folder.
        device: The device to compute on, by the name that torch has for it.
        options: The options of the vectors.
    """

    def __init__(self, folder: str, device: str, options: CorpusOptions) -> None:
        import torch

        # a worker has one core
        torch.set_num_threads(1)
        self.embedder = PartEmbedder(Path(folder), device, options)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Compute a part and write it.

        Args:
            row: The `path` of the part.

        Returns:
            The `path`, and the number of `words`.
        """
        part = read_unfinished_part(Path(row["path"]))
        # left by a worker that failed
        part.path.unlink(missing_ok=True)
        save_part(part.path, self.embedder.embed_part(part.sentences))
        return {"path": row["path"], "words": sum(len(sentence.words) for sentence in part.sentences)}


class RayEngine:
    """Computes parts on Ray, at the cluster that `RAY_ADDRESS` names, or else on this machine.

    Args:
        workers: The number of workers; each has a GPU of its own if the device is `cuda`, and otherwise a core.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __call__(self, parts: Iterable[UnfinishedPart], embedder: PartEmbedder, progress: Progress) -> None:
        """Compute parts and write each of them to its path.

        Args:
            parts: The parts, in the order of the corpus.
            embedder: The folder, device and options that the workers use.
            progress: Receives the number of words after each part.

        Raises:
            ElmoError: If Ray is not installed, or its workers fail again and again.
        """
        try:
            import ray
            import ray.data
        except ImportError as error:
            raise ElmoError("The engine ray needs Ray: pip install 'elmo_hf[ray]'") from error
        rows = []
        for part in parts:
            save_sentences(part)
            rows.append({"path": str(part.path.resolve())})
        if not rows:
            return
        if not ray.is_initialized():
            ray.init(logging_level="error", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        gpus = 1 if embedder.device.startswith("cuda") else 0
        computed = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            PartWorker,
            fn_constructor_args=(str(embedder.folder.resolve()), embedder.device, embedder.options),
            compute=ray.data.ActorPoolStrategy(size=min(self.workers, len(rows))),
            num_cpus=0 if gpus else 1,
            num_gpus=gpus,
        )
        try:
            for row in computed.iter_rows():
                progress(row["words"])
        except ray.exceptions.RayError as error:
            raise ElmoError(f"Ray's workers fail ({one_line(error)[-300:]}): see Ray's logs.") from error


__all__ = ["RayEngine"]
