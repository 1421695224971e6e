"""Check and time the recurrence on a GPU: torch, the Triton kernels, and cuDNN's LSTM beside them.

    python benchmarks/bench_gpu.py > gpu.txt
    TRITON_INTERPRET=1 python benchmarks/bench_gpu.py --device cpu --quick    # tries the script where there is no GPU

The script first compares outputs and gradients of the kernels with the readable recurrence, in float32 and bfloat16;
its exit status is 1 if they differ. Then it measures words a second in the sizes of two releases, with random weights
and random sentences of 3 to 47 words. All recurrences get the same batch in turn, round after round; a figure is the
median of the rounds. cuDNN's LSTM, projected to the same width, has no clips, so its vectors differ for the same work.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_hf import ElmoConfig, ElmoForTokenClassification, ElmoModel
from elmo_hf.model.packing_elmo import Packing, pack_words
from elmo_hf.model.recurrence_elmo import InputProjections, LstmCall, LstmWeights, Output, reference_lstm, run_lstm


# width of the cells and of the projection
SIZES = {"small": (1024, 128), "original": (4096, 512)}
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
# as a share of the norm; the second rounds what it stores to 8 bits
FARTHEST = {torch.float32: 1e-5, torch.bfloat16: 3e-2}
OURS = ("packed", "triton")

Call = Callable[[], Any]


class Plan(NamedTuple):
    """What is measured, and how long."""

    device: torch.device
    sizes: dict[str, tuple[int, int]]
    filters: list[list[int]]
    batches: list[int]
    longest: int
    rounds: int
    seconds: float
    deadline: float
    matrix: int


class Cudnn(nn.Module):
    """Two biLSTM layers by `nn.LSTM`, which do not see each other's direction, as in ELMo."""

    def __init__(self, cell: int, width: int) -> None:
        super().__init__()
        self.lstms = nn.ModuleList(
            nn.LSTM(width, cell, batch_first=True, proj_size=width if width < cell else 0) for _ in range(4)
        )

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor, reversal: torch.Tensor) -> torch.Tensor:
        """Read `[B, T, 2 * P]`; `reversal` has the position of each word in the reversed sentence, `[B, T]`."""
        positions = reversal[:, :, None].expand(-1, -1, vectors.shape[2] // 2)
        directions = list(vectors.chunk(2, dim=2))
        directions[1] = directions[1].gather(1, positions)
        for layer in range(2):
            for n, vectors in enumerate(directions):
                packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
                read, _ = pad_packed_sequence(self.lstms[2 * layer + n](packed)[0], batch_first=True)
                directions[n] = read + vectors if layer else read
        return torch.cat([directions[0], directions[1].gather(1, positions)], dim=2)


def choose(name: str, call: Call) -> Call:
    """Make a call compute by the recurrence of that name."""

    def chosen() -> Any:
        os.environ["ELMO_HF_RECURRENCE"] = name
        return call()

    return chosen


def train(call: Call, module: nn.Module) -> Call:
    """Make a call compute the gradients of a sum, too."""

    def trained() -> None:
        module.zero_grad(set_to_none=True)
        call().float().sum().backward()

    return trained


def untrained(call: Call) -> Call:
    """Make a call compute no gradients."""
    return torch.no_grad()(call)


def wait(device: torch.device) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check(plan: Plan) -> bool:
    """Compare all recurrences with the readable one in float64 on the CPU; print how far they are."""
    generator = torch.Generator().manual_seed(0)
    lengths = [2, 4, 1] if plan.device.type == "cpu" else [9, 4, 0, 17, 1, 11]
    width, cell = (8, 24) if plan.device.type == "cpu" else (72, 200)
    packing = pack_words(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])
    assert isinstance(packing, Packing)
    shapes = [(2, packing.words.shape[1], 4 * cell), (2, len(lengths), width), (2, len(lengths), cell)]
    shapes += [(2, width, 4 * cell), (2, cell, width)]
    scales = [1, 1, 1, width**-0.5, cell**-0.5]
    good = True
    for dtype, farthest in FARTHEST.items():
        numbers = [
            scale * torch.randn(shape, generator=generator) for scale, shape in zip(scales, shapes, strict=True)
        ]
        rounded = [part.to(dtype) for part in numbers]
        wanted = everything(reference_lstm, [part.double() for part in rounded], packing.batch_sizes)
        for name in OURS:
            os.environ["ELMO_HF_RECURRENCE"] = name
            found = everything(run, [part.to(plan.device) for part in rounded], packing.batch_sizes)
            far = max(
                ((one.cpu().double() - other).norm() / other.norm()).item()
                for one, other in zip(found, wanted, strict=True)
            )
            # of packed, only to compare: torch rounds more often
            good &= far <= farthest or name == "packed"
            print(f"{dtype}, {name}: {far:.1e} from the reference, {farthest:.0e} at most")
    return good


def run(call: LstmCall) -> Output:
    """Run a layer whose gate inputs are given by the recurrence that the environment chooses."""
    given = InputProjections([nn.Identity(), nn.Identity()])
    return run_lstm(call.inputs, given, call.batch_sizes, call.state, call.weights)


def everything(
    run: Callable[[LstmCall], Output], numbers: list[torch.Tensor], batch_sizes: list[int]
) -> list[torch.Tensor]:
    """Run a recurrence for inference and for training; return outputs, states and gradients."""
    inputs, hidden, cell, recurrent, output = (nn.Parameter(part) for part in numbers)
    call = LstmCall(inputs, None, batch_sizes, (hidden, cell), LstmWeights(recurrent, output, 0.7, 0.7))
    with torch.no_grad():
        outputs, state = run(call)
    trained, trained_state = run(call)
    loss = (trained * torch.linspace(1, 2, trained.shape[2], device=trained.device)).sum()
    loss = loss + sum((part * 3).sum() for part in trained_state)
    gradients = torch.autograd.grad(loss, [inputs, hidden, cell, recurrent, output])
    return [outputs, *state, trained.detach(), *gradients]


def measure(plan: Plan, calls: dict[str, Call]) -> dict[str, tuple[float, float]]:
    """Let calls take turns; return for each the median seconds of one, and the MiB that it needs at most."""
    peaks, times = {}, {name: list[float]() for name in calls}
    for name, call in calls.items():
        # kernels are compiled now
        call()
        wait(plan.device)
        if plan.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(plan.device)
            call()
            wait(plan.device)
        peaks[name] = torch.cuda.max_memory_allocated(plan.device) / 2**20 if plan.device.type == "cuda" else 0.0
    for _ in range(plan.rounds):
        for name, call in calls.items():
            begin, number = time.perf_counter(), 0
            while number == 0 or time.perf_counter() - begin < plan.seconds:
                call()
                wait(plan.device)
                number += 1
            times[name].append((time.perf_counter() - begin) / number)
    return {name: (statistics.median(times[name]), peaks[name]) for name in calls}


def peak_speed(plan: Plan, dtype: torch.dtype) -> float:
    """Measure the operations a second of a large product of matrices."""
    one = torch.randn(plan.matrix, plan.matrix, device=plan.device).to(dtype)
    seconds, _ = measure(plan, {"product": lambda: one @ one})["product"]
    return 2 * plan.matrix**3 / seconds


def report(plan: Plan, title: str, calls: dict[str, Call], words: int, share: Callable[[float], str] | None) -> None:
    """Measure, and print a line for each recurrence: words a second, times torch and cuDNN, memory, peak share."""
    if time.monotonic() > plan.deadline:
        print(f"{title}: left out, the time is up")
        return
    try:
        found = measure(plan, calls)
    except torch.OutOfMemoryError:
        print(f"{title}: left out, it does not fit")
        return
    for name, (seconds, peak) in found.items():
        beside = "".join(
            f" {found[other][0] / seconds:>9.2f}" if other in found else f" {'':9}" for other in ("packed", "cudnn")
        )
        of_peak = share(seconds) if share else ""
        print(f"{title:44} {name:8} {words / seconds:>11,.0f}{beside} {peak:>10,.0f} {of_peak:>8}")


def time_layers(plan: Plan, size: str, sentences: int, dtype: torch.dtype, peak: float) -> None:
    """Time the two biLSTM layers alone, beside cuDNN's."""
    cell, width = plan.sizes[size]
    mask, lengths = make_mask(plan, sentences)
    config = ElmoConfig(hidden_size=2 * width, intermediate_size=cell, char_filters=plan.filters)
    layers = ElmoModel(config).layers.to(plan.device, dtype).eval()
    cudnn = Cudnn(cell, width).to(plan.device, dtype)
    vectors = (torch.randn(*mask.shape, 2 * width, device=plan.device) * mask[:, :, None]).to(dtype)
    place = torch.arange(mask.shape[1], device=plan.device)
    last = lengths.to(plan.device)[:, None] - 1
    reversal = torch.where(place <= last, last - place, place)

    def read() -> torch.Tensor:
        packing, hidden = pack_words(mask), vectors
        for layer in layers:
            hidden, _ = layer(hidden, packing)
        return hidden

    def peer() -> torch.Tensor:
        return cudnn(vectors, lengths, reversal)

    words = int(lengths.sum())
    # a multiplication and an addition for each weight, word, direction and layer; of 3 products to train, 2 more
    operations = 2 * words * 2 * 2 * (2 * width * 4 * cell + cell * width)
    calls = {name: choose(name, untrained(read)) for name in OURS} | {"cudnn": untrained(peer)}
    title = f"layers, {size}, {sentences}, {str(dtype)[6:]}"
    report(plan, title, calls, words, lambda seconds: f"{operations / seconds / peak:.0%}")
    training = {name: choose(name, train(read, layers)) for name in OURS} | {"cudnn": train(peer, cudnn)}
    report(plan, f"{title}, training", training, words, lambda seconds: f"{3 * operations / seconds / peak:.0%}")


def time_models(plan: Plan, size: str, sentences: int, dtype: torch.dtype) -> None:
    """Time a whole tagger, from the characters on: vectors, and training with the biLM frozen and not."""
    cell, width = plan.sizes[size]
    mask, lengths = make_mask(plan, sentences)
    config = ElmoConfig(hidden_size=2 * width, intermediate_size=cell, char_filters=plan.filters)
    char_ids = torch.randint(1, 256, (*mask.shape, config.max_characters_per_token), device=plan.device)
    # words of 1 to 9 characters
    ends = torch.randint(1, 10, mask.shape, device=plan.device)
    char_ids = char_ids * (torch.arange(char_ids.shape[2], device=plan.device) < ends[:, :, None]) * mask[:, :, None]
    given = {"input_ids": mask.long(), "char_ids": char_ids, "attention_mask": mask.long()}
    tagger = ElmoForTokenClassification(config).eval().to(device=plan.device, dtype=dtype)
    words, title = int(lengths.sum()), f"{size}, {sentences}, {str(dtype)[6:]}"

    def embed() -> torch.Tensor:
        return tagger.elmo(**given).last_hidden_state

    def tag() -> torch.Tensor:
        return tagger(**given).logits

    vectors = {name: choose(name, untrained(embed)) for name in OURS}
    report(plan, f"vectors, {title}", vectors, words, None)
    tagger.train()
    for frozen in (True, False):
        (tagger.freeze_bilm if frozen else tagger.unfreeze_bilm)()
        training = {name: choose(name, train(tag, tagger)) for name in OURS}
        report(plan, f"tagger, {title}, {'frozen' if frozen else 'all weights'}", training, words, None)


def make_mask(plan: Plan, sentences: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw lengths: the mask on the device, `[B, T]`, and the lengths on the CPU."""
    generator = torch.Generator().manual_seed(sentences)
    lengths = torch.randint(3, plan.longest + 1, (sentences,), generator=generator)
    return (torch.arange(int(lengths.max())) < lengths[:, None]).to(plan.device), lengths


def make_plan(device: torch.device, *, quick: bool, limit: float) -> Plan:
    """Say what is measured; quickly, toys."""
    deadline = time.monotonic() + limit
    if not quick:
        return Plan(device, SIZES, FILTERS, [1, 32, 128, 512], 47, 3, 0.15, deadline, 8192)
    return Plan(device, {"toy": (24, 16)}, [[1, 4], [2, 4]], [2], 4, 1, 0, deadline, 64)


def describe(device: torch.device) -> None:
    """Print the machine and the versions."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    versions = []
    for name in ("elmo_hf", "torch", "triton"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"no {name}")
    print(f"{gpu}; Python {platform.python_version()}, {', '.join(versions)}, CUDA {torch.version.cuda}")
    print(f"cuDNN {torch.backends.cudnn.version()}, float32 products: {torch.get_float32_matmul_precision()}")


def main() -> int:
    """Check, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="toy sizes: tries the script, measures nothing")
    parser.add_argument("--limit", type=float, default=420, metavar="SECONDS", help="then the rest is left out")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device; --device cpu --quick tries the script without one.")
    torch.manual_seed(0)
    plan = make_plan(device, quick=options.quick, limit=options.limit)
    describe(device)
    good = check(plan)
    peaks = {dtype: peak_speed(plan, dtype) for dtype in FARTHEST}
    print("product of matrices: " + ", ".join(f"{str(dtype)[6:]} {peak:.3g}/s" for dtype, peak in peaks.items()))
    print(f"{'':53} {'words/s':>11} {'x packed':>9} {'x cudnn':>9} {'peak MiB':>10} {'of peak':>8}")
    for size in plan.sizes:
        for sentences in plan.batches:
            for dtype, peak in peaks.items():
                time_layers(plan, size, sentences, dtype, peak)
                time_models(plan, size, sentences, dtype)
    print("The kernels agree with the reference." if good else "The kernels differ from the reference.")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
