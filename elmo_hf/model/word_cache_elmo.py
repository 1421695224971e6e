# Copyright 2026 The elmo_hf authors. All rights reserved.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""What the token layer gave for words of earlier batches: a text repeats most of its words."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn


class WordCache:
    """The vectors of up to `capacity` words, by their ids, as one set of weights gave them.

    When it is full, or a weight has changed, it starts anew. torch counts the changes of a tensor, but not those made
    through `.data`: after such a one, make a new cache. Copies and pickles of a cache are empty.

    Memory: for each word its vector and about 600 bytes.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"`capacity` is {capacity}: a cache holds at least one word.")
        self.capacity = capacity
        self.places: dict[bytes, int] = {}
        self.vectors = torch.empty(0)
        self.made_by: tuple[object, ...] = ()
        # a server may call one model from several threads
        self.lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return WordCache, (self.capacity,)

    def look_up(
        self, ids: torch.Tensor, weights: Iterable[nn.Parameter], encode: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Find the vectors of distinct words, and compute those that are not known.

        Args:
            ids: `[D, K]`.
            weights: What `encode` depends on.
            encode: Maps `[n, K]` to `[n, P]`.

        Returns:
            `[D, P]`.
        """
        weights = list(weights)
        if len(ids) > self.capacity or any(weight.is_inference() for weight in weights):
            # of tensors that were made in inference mode torch does not count the changes
            return encode(ids)
        kind = ids.device.type
        precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        made_by = precision, *((weight.data_ptr(), weight._version, weight.dtype) for weight in weights)
        keys = [row.tobytes() for row in ids.cpu().numpy()]
        with self.lock:
            if made_by != self.made_by or len(self.places.keys() | keys) > self.capacity:
                self.places, self.made_by = {}, made_by
            new = [place for place, key in enumerate(keys) if key not in self.places]
            if new:
                self.add([keys[place] for place in new], encode(ids[new]))
            return self.vectors[torch.tensor([self.places[key] for key in keys], device=ids.device)]

    def add(self, keys: list[bytes], found: torch.Tensor) -> None:
        """Keep the vectors `[n, P]` of words that are not known."""
        first = len(self.places)
        if not first:
            # later calls outside of inference mode write to it, too
            with torch.inference_mode(False):
                self.vectors = torch.empty(self.capacity, found.shape[1], dtype=found.dtype, device=found.device)
        self.vectors[first : first + len(keys)] = found
        self.places.update(zip(keys, range(first, first + len(keys)), strict=True))


__all__ = ["WordCache"]
