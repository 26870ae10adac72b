"""A small transformer learns Python's own manual on four ranks; the network does the sums.

    fanfold lab up --hosts 4
    FANFOLD_LAB=lab torchrun --nproc-per-node 4 examples/train_ddp.py
    FANFOLD_LAB=lab torchrun --nproc-per-node 4 examples/train_ddp.py --backends fanfold,gloo

The text is that of ``help("topics")``, which comes with Python. Nothing but the name of the
backend says that gradients are joined in BFRs. With several backends each trains from the same
start, and the losses are held against those of the last one.
"""

import argparse
import gc
import hashlib
import json
import os
import sys
from pathlib import Path
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

CONTEXT, BATCH, WIDTH, HEADS, LAYERS, SYMBOLS = 64, 8, 64, 4, 2, 128
BOUND = 5e-4
"""Losses of two backends may differ by this much: they add floats in another order."""


class Transformer(nn.Module):
    """Next character from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.symbol = nn.Embedding(SYMBOLS, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of the next character; text: (B, C) codes."""
        n = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        hidden = self.symbol(text) + self.place(torch.arange(n))
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def batches(rank: int, n_steps: int) -> list[Tensor]:
    """Pieces of the manual, others for each rank: (B, C + 1) codes for each step."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    draw = torch.Generator().manual_seed(1000 + rank)
    starts = torch.randint(len(codes) - CONTEXT - 1, (n_steps, BATCH), generator=draw)
    return [torch.stack([codes[i : i + CONTEXT + 1] for i in row.tolist()]) for row in starts]


def train(backend: str, n_steps: int) -> tuple[list[float], str]:
    """Losses, averaged over all ranks, and a digest of the bits of the trained model."""
    dist.init_process_group(backend)
    # Held past the model: the last owner of a gloo group waits for gloo's threads, which may
    # want the GIL, and DistributedDataParallel would keep that meanwhile. The model is of a
    # circle of objects, so it goes when it is collected.
    group = dist.group.WORLD
    learned = learn(n_steps)
    gc.collect()
    dist.destroy_process_group()
    del group
    return learned


def learn(n_steps: int) -> tuple[list[float], str]:
    """What ``train`` gives, on the default group."""
    torch.manual_seed(7)
    model = DistributedDataParallel(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for piece in batches(dist.get_rank(), n_steps):
        scores = model(piece[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), piece[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().double()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    bits = hashlib.blake2b(digest_size=8)
    for parameter in model.parameters():
        bits.update(parameter.detach().numpy().tobytes())
    dist.barrier()
    return losses, bits.hexdigest()


def main() -> int:
    """Train by each backend, print the curves; 4 where they are further apart than BOUND."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="fanfold", help="joined by commas")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", type=Path, help="write losses and digests of rank 0 there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = args.backends.split(",")
    runs = [train(name, args.steps) for name in names]
    curves = [losses for losses, _ in runs]
    apart = max(abs(a - b) for curve in curves for a, b in zip(curve, curves[-1], strict=True))
    if int(os.environ["RANK"]) == 0:
        print("step  " + "  ".join(f"{name:>10}" for name in names))
        for step in sorted({*range(0, args.steps, max(args.steps // 12, 1)), args.steps - 1}):
            print(f"{step:4}  " + "  ".join(f"{curve[step]:10.6f}" for curve in curves))
        print("model " + "  ".join(f"{bits[:10]:>10}" for _, bits in runs))
        print(f"losses differ by {apart:.2e} at most, allowed {BOUND}")
        if args.json:
            args.json.write_text(
                json.dumps([[name, *run] for name, run in zip(names, runs, strict=True)])
            )
    return 4 if apart > BOUND else 0


if __name__ == "__main__":
    sys.exit(main())
