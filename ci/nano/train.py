"""Trains nano and writes it: `python ci/nano/train.py OUT_FOLDER`.

    python ci/nano/train.py out/nano --device cuda --workers 14     # minutes on a GPU
    python ci/nano/train.py out/nano --steps 30 --rows 4            # to see it work on a CPU
    python ci/nano/train.py out/nano --begin ref/models/nano --only mtp

The trunk learns the language of `hotfire.ref.models.language`, and the block drafter learns from
its hidden states in the same steps; then comes the MTP head. Interrupt it at will: with
`--checkpoint FILE` the same command goes on where it stopped. Metrics come out the same each time,
bits do not. `evaluate.py` measures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import data
import numpy as np
import torch
from muon import Muon
from network import CHUNK, Nano

from hotfire.ref.models import safetensors
from hotfire.ref.models.config import Config
from hotfire.ref.models.drafting import BLOCK, FILES, Drafts, drafter_json
from hotfire.ref.models.tensors import encode

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "ref/models/nano"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
CONFIG = Config(
    n_vocab=650, n_embd=192, n_ff=384, n_heads=4, n_kv_heads=2, head_dim=64, n_rot=16,
    n_key_heads=2, n_value_heads=4, key_dim=32, value_dim=32,
    full_attention=tuple((layer + 1) % 4 == 0 for layer in range(8)), tied=True, n_ctx_train=4096,
)  # fmt: skip
MTP_STEPS, MTP_ROWS, MTP_LENGTH, MTP_RATE = 300, 4, 256, 0.02
"""The head is trained shortly: trained along with the trunk, 97 % of its drafts were right, and a
head that is hardly ever wrong tests no rejection.
"""
Losses = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], dict[str, torch.Tensor]]
PARTS = ("drafter", "mtp")
WARMUP = 200
MUON_DECAY = 0.1
ADAM_SHARE = 0.2
"""AdamW's rate, of embeddings, norms and gates, as a share of Muon's, of matrices."""


def options() -> argparse.Namespace:
    """What was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=5500)
    parser.add_argument("--rows", type=int, default=32, help="conversations a step")
    parser.add_argument("--length", type=int, default=512, help="tokens of each")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes that write text")
    parser.add_argument("--begin", type=Path, help="a folder whose weights are trained further")
    parser.add_argument("--only", choices=PARTS, help="train this and leave the rest")
    parser.add_argument("--checkpoint", type=Path)
    asked = parser.parse_args()
    if asked.length % CHUNK:
        parser.error(f"--length must be a multiple of {CHUNK}")
    return asked


def schedule(step: int, n_steps: int) -> float:
    """Of the learning rate: up, then down to nothing in a cosine."""
    warmup = min(WARMUP, n_steps // 10)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / max(1, n_steps - warmup))


class Trainer:
    """Some of a model's weights, their optimisers, and one step; on a GPU it becomes a graph.

    Args:
        nano: the model.
        trained: prefixes of the weights that are.
        asked: sizes, rate and seed.
        losses: of ids, weights and anchors.
    """

    def __init__(
        self, nano: Nano, trained: tuple[str, ...], asked: argparse.Namespace, losses: Losses
    ) -> None:
        self.nano, self.asked, self._losses = nano, asked, losses
        self.device = next(nano.parameters()).device
        self.rate = torch.tensor(0.0, device=self.device)
        self._weights, inner, outer = [], [], []
        for name, weight in nano.named_parameters():
            if name.startswith(trained):
                small = weight.dim() != 2 or "embed" in name or min(weight.shape) < 32
                (outer if small else inner).append(weight)
                self._weights.append(weight)
        on_gpu = self.device.type == "cuda"
        self.muon = Muon(inner, self.rate, MUON_DECAY)
        self.adam = torch.optim.AdamW(
            outer, lr=self.rate, betas=(0.9, 0.98), weight_decay=0, capturable=on_gpu,
            foreach=on_gpu,
        )  # fmt: skip
        shape = (asked.rows, asked.length + 1)
        self.ids = torch.zeros(shape, dtype=torch.int64, device=self.device)
        self.weight = torch.ones(shape, device=self.device)
        self.anchors = torch.arange(1, asked.length // 16 + 1, device=self.device)
        self.found: dict[str, torch.Tensor] = {}
        self.graph: torch.cuda.CUDAGraph | None = None
        self.at = 0

    def _step(self) -> None:
        for weight in self._weights:
            if weight.grad is not None:
                weight.grad.zero_()
        self.found = self._losses(self.ids, self.weight, self.anchors)
        sum(self.found.values()).backward()
        torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
        self.muon.step()
        self.rate.mul_(ADAM_SHARE)
        self.adam.step()

    def _capture(self) -> None:
        """Warms up beside the main stream, with rate 0, and records one step."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._step()

    def step(self, ids: np.ndarray, weight: np.ndarray) -> None:
        """Learns from one batch."""
        if self.device.type == "cuda" and self.graph is None:
            self._capture()
        rng = np.random.default_rng([self.asked.seed, self.at])
        n_places = self.asked.length - BLOCK
        anchors = 1 + rng.choice(n_places - 1, len(self.anchors), replace=False)
        self.ids.copy_(torch.from_numpy(ids))
        self.weight.copy_(torch.from_numpy(weight))
        self.anchors.copy_(torch.from_numpy(anchors))
        self.rate.fill_(self.asked.rate * schedule(self.at, self.asked.steps))
        if self.graph is not None:
            self.graph.replay()
        else:
            self._step()
        self.at += 1

    def save(self, path: Path) -> None:
        """All that is needed to go on."""
        state = {name: getattr(self, name).state_dict() for name in ("nano", "muon", "adam")}
        torch.save({**state, "at": self.at}, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def load(self, path: Path) -> None:
        """Goes on from a checkpoint."""
        state = torch.load(path, map_location=self.device)
        for name in ("nano", "muon", "adam"):
            getattr(self, name).load_state_dict(state[name])
        for group in self.adam.param_groups:
            group["lr"] = self.rate
        self.at = state["at"]


def batches(
    asked: argparse.Namespace, name: str, first: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches from a step on; each is drawn from the seed and its number only."""
    wanted = (
        (TOKENIZER, f"{name}/{asked.seed}/{step}", asked.rows, asked.length + 1)
        for step in itertools.count(first)
    )
    if asked.workers < 2:
        yield from map(data.batch, wanted)
        return
    with multiprocessing.get_context("fork").Pool(asked.workers) as pool:
        waiting = [
            pool.apply_async(data.batch, (each,))
            for each in itertools.islice(wanted, 3 * asked.workers)
        ]
        for each in wanted:
            waiting.append(pool.apply_async(data.batch, (each,)))
            yield waiting.pop(0).get()


def train(trainer: Trainer, name: str) -> None:
    """Trains to the end, with a line every hundred steps."""
    asked = trainer.asked
    checkpoint = asked.checkpoint and asked.checkpoint.with_suffix(f".{name}")
    if checkpoint and checkpoint.exists():
        trainer.load(checkpoint)
    began = said = time.monotonic()
    for ids, weight in batches(asked, name, trainer.at):
        if trainer.at >= asked.steps:
            break
        trainer.step(ids, weight)
        now = time.monotonic()
        if trainer.at % 100 == 0 or trainer.at in (1, 10, asked.steps):
            losses = ", ".join(f"{part} {x.item():.3f}" for part, x in trainer.found.items())
            print(f"{name} {trainer.at}/{asked.steps}, {now - began:.0f} s: {losses}", flush=True)
        if checkpoint and (now - said > 60 or trainer.at == asked.steps):
            trainer.save(checkpoint)
            said = now


def write(folder: Path, nano: Nano) -> None:
    """The checkpoint as the family has it, in bf16; the gates' two vectors stay f32."""
    folder.mkdir(parents=True, exist_ok=True)
    trunk, drafter = {}, {}
    for name, weight in nano.state_dict().items():
        dtype = "f32" if name.endswith(("A_log", "dt_bias")) else "bf16"
        stored = encode(weight.float().cpu().numpy().astype(np.float64), dtype)
        if name.startswith("drafter."):
            drafter[name.removeprefix("drafter.")] = stored
        else:
            trunk[name] = stored
    safetensors.write(folder / "model.safetensors", trunk)
    safetensors.write(folder / "drafter.safetensors", drafter)
    (folder / "config.json").write_text(json.dumps(CONFIG.to_json(), indent=1) + "\n")
    (folder / FILES[0]).write_text(drafter_json(Drafts()))
    for name in TOKENIZER_FILES:
        if (TOKENIZER / name).resolve() != (folder / name).resolve():
            shutil.copy(TOKENIZER / name, folder / name)


def read(folder: Path, nano: Nano) -> None:
    """The inverse of `write`."""
    stored = safetensors.read(folder / "model.safetensors")
    parts = safetensors.read(folder / "drafter.safetensors")
    stored |= {f"drafter.{name}": tensor for name, tensor in parts.items()}
    values = {name: torch.from_numpy(tensor.values()).float() for name, tensor in stored.items()}
    nano.load_state_dict(values)


def main() -> None:
    """Trains the trunk and its drafter, then the MTP head, and writes them."""
    asked = options()
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")
    nano = Nano(CONFIG, Drafts()).to(asked.device)
    if asked.begin:
        read(asked.begin, nano)
    if asked.only == "drafter":
        train(Trainer(nano, ("drafter.",), asked, nano.drafter_losses), "drafter")
    elif asked.only != "mtp":
        train(Trainer(nano, ("model.", "drafter."), asked, nano.losses), "trunk")
    write(asked.out, nano)
    if asked.only == "drafter":
        return
    read(asked.out, nano)  # the head sees the rounded trunk
    nano.begin_mtp()
    asked.steps, asked.rows, asked.length, asked.rate = MTP_STEPS, MTP_ROWS, MTP_LENGTH, MTP_RATE
    head = Trainer(nano, ("mtp.",), asked, lambda ids, weight, _: nano.mtp_losses(ids, weight))
    train(head, "mtp")
    write(asked.out, nano)


if __name__ == "__main__":
    main()
