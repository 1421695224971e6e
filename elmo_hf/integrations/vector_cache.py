"""The vectors that this process computed last, for objects that are copied and made anew, as scikit-learn's are."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from elmo_hf.embedding.vectors import Vectors


# what an entry takes beside the numbers of its vector: the key, the array and their places in the dictionary
ENTRY_BYTES = 400


class VectorCache:
    """Keeps vectors by key, and forgets those that were not used for longest. Threads may share it."""

    def __init__(self) -> None:
        self._vectors: OrderedDict[Hashable, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self.num_bytes = 0

    def get(self, key: Hashable) -> Vectors | None:
        """Return the vector of a key, or `None` if it is not there."""
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def put(self, key: Hashable, vector: Vectors, *, max_bytes: int) -> None:
        """Keep a vector, and forget others until all take no more than some bytes.

        Args:
            key: What the vector depends on.
            vector: An array that nobody changes.
            max_bytes: The most that this cache may take then.
        """
        with self._lock:
            self._forget(key)
            self._vectors[key] = vector
            self.num_bytes += vector.nbytes + ENTRY_BYTES
            while self.num_bytes > max_bytes:
                self._forget(next(iter(self._vectors)))

    def clear(self) -> None:
        """Forget all vectors."""
        with self._lock:
            self._vectors.clear()
            self.num_bytes = 0

    def _forget(self, key: Hashable) -> None:
        vector = self._vectors.pop(key, None)
        if vector is not None:
            self.num_bytes -= vector.nbytes + ENTRY_BYTES


#: The cache of this process.
VECTOR_CACHE = VectorCache()

__all__ = ["VECTOR_CACHE", "VectorCache"]
