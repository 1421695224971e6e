"""AllenNLP's side of bench_speed.py: it imports nothing of elmo_hf, and runs under the Python that has AllenNLP."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp.modules.elmo import Elmo, batch_to_ids
from serving import Worker, seconds_of


class AllenNlp(Worker):
    """An ELMo as AllenNLP's users build it."""

    def load(self, folder: str, threads: int, trained: str, batches: str, **_: Any) -> dict[str, Any]:
        """Load the HDF5 weights, and make the ids of all batches."""
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        files = [str(Path(folder, name)) for name in ("options.json", "weights.hdf5")]
        self.elmo = Elmo(*files, num_output_representations=1, dropout=0, requires_grad=trained == "all")
        self.words = json.loads(Path(batches).read_text(encoding="utf-8"))
        self.ids = {name: [batch_to_ids(batch) for batch in part] for name, part in self.words.items()}
        self.tagger = torch.nn.Linear(self.elmo.get_output_dim(), 45)
        parts = [*self.elmo.parameters(), *self.tagger.parameters()]
        self.optimizer = torch.optim.SGD([part for part in parts if part.requires_grad], lr=1e-3)
        return {"versions": f"AllenNLP {version('allennlp')}, torch {torch.__version__}"}

    def embed(self, batches: str, first: int, last: int) -> dict[str, float]:
        """Compute the vectors of some batches."""
        self.elmo.eval()
        with torch.no_grad():
            return {"seconds": seconds_of(lambda: [self.elmo(ids) for ids in self.ids[batches][first:last]])}

    def vectors(self, batches: str, output: str) -> dict[str, float]:
        """Save the vectors of the first batch, as the first that the model computes."""
        self.elmo.eval()
        with torch.no_grad():
            found = self.elmo(self.ids[batches][0])["elmo_representations"][0]
        np.save(output, found.numpy())
        return {}

    def train(self, batches: str, first: int, last: int) -> dict[str, float]:
        """Train a tagger for a step each batch; the tags are the lengths of the words."""
        self.elmo.train()

        def steps() -> None:
            for ids in self.ids[batches][first:last]:
                output = self.elmo(ids)
                mask = output["mask"].bool()
                tags = (ids > 0).sum(dim=2)[mask] % 45
                loss = torch.nn.functional.cross_entropy(self.tagger(output["elmo_representations"][0])[mask], tags)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()

        return {"seconds": seconds_of(steps)}

    def tokenize(self, batches: str) -> dict[str, float]:
        """Make the ids of all batches again."""
        return {"seconds": seconds_of(lambda: [batch_to_ids(batch) for batch in self.words[batches]])}


if __name__ == "__main__":
    AllenNlp().serve()
