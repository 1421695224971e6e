"""This package's side of bench_speed.py."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from serving import Worker, seconds_of

from elmo_hf import ElmoForTokenClassification, ElmoModel, ElmoTokenizer


class ElmoHf(Worker):
    """An ELMo as the users of Transformers load it."""

    def load(self, folder: str, threads: int, trained: str, batches: str, dtype: str) -> dict[str, Any]:
        """Load the model, and make the ids of all batches."""
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        transformers.logging.set_verbosity_error()
        self.tokenizer = ElmoTokenizer.from_pretrained(folder)
        self.words = json.loads(Path(batches).read_text(encoding="utf-8"))
        self.ids = {name: list(map(self.encode, part)) for name, part in self.words.items()}
        kind = getattr(torch, dtype)
        if trained == "nothing":
            self.model: Any = ElmoModel.from_pretrained(folder, dtype=kind).eval()
            self.clock = {"layers": 0.0}
            self.model.layers[0].register_forward_pre_hook(self.start_clock)
            self.model.layers[-1].register_forward_hook(self.stop_clock)
        else:
            self.model = ElmoForTokenClassification.from_pretrained(
                folder, dtype=kind, num_labels=45, classifier_dropout=0.0, freeze_bilm=trained != "all"
            ).train()
            parts = [part for part in self.model.parameters() if part.requires_grad]
            self.optimizer = torch.optim.SGD(parts, lr=1e-3)
        return {"versions": f"torch {torch.__version__}, transformers {transformers.__version__}"}

    def encode(self, batch: list[list[str]]) -> Any:
        """Make the ids of a batch."""
        return self.tokenizer(batch, is_split_into_words=True, padding=True, return_tensors="pt")

    def start_clock(self, *_: object) -> None:
        """Note when the first biLSTM layer begins."""
        self.clock["layers"] -= time.perf_counter()

    def stop_clock(self, *_: object) -> None:
        """Note when the last biLSTM layer ends."""
        self.clock["layers"] += time.perf_counter()

    @torch.inference_mode()
    def embed(self, batches: str, first: int, last: int) -> dict[str, float]:
        """Compute the vectors of some batches; tell what the recurrence took of it."""
        self.clock["layers"] = 0.0
        return {
            "seconds": seconds_of(lambda: [self.model(**ids) for ids in self.ids[batches][first:last]]),
            "layers": self.clock["layers"],
        }

    @torch.inference_mode()
    def vectors(self, batches: str, output: str) -> dict[str, float]:
        """Save the vectors of the first batch."""
        ids = self.ids[batches][0]
        found = self.model(**ids).last_hidden_state.float()
        rows = [row[mask.bool()][1:-1] for row, mask in zip(found, ids["attention_mask"], strict=True)]
        np.save(output, torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).numpy())
        return {}

    def train(self, batches: str, first: int, last: int) -> dict[str, float]:
        """Train a tagger for a step each batch; the tags are the lengths of the words."""

        def steps() -> None:
            for ids in self.ids[batches][first:last]:
                labels = (ids["char_ids"] > 0).sum(dim=2) % 45
                self.model(**ids, labels=labels.masked_fill(ids["attention_mask"] == 0, -100)).loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

        return {"seconds": seconds_of(steps)}

    def tokenize(self, batches: str) -> dict[str, float]:
        """Make the ids of all batches again."""
        return {"seconds": seconds_of(lambda: list(map(self.encode, self.words[batches])))}

    def peak(self, threads: int) -> dict[str, float]:
        """Measure the machine's matrix products in float32, in operations a second."""
        torch.set_num_threads(threads)
        one = torch.randn(2048, 2048)
        with torch.inference_mode():
            return {"flops": 2 * 2048**3 / min(seconds_of(lambda: one @ one) for _ in range(8))}


if __name__ == "__main__":
    ElmoHf().serve()
