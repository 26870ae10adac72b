"""One rank of the bench beside gloo: both backends of PyTorch in one process, on one lab.

    python beside_rank.py RANK N_RANKS PORT

FANFOLD_LAB names the lab; rank r is its host r + 1, and all are at its host 1 in a second
group, "host". Each line of standard input is a task in
JSON: backend, bytes, operations one after the other; each answer is a line too.
"""

import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from fanfold.torch import FanfoldOptions

TIMEOUT = timedelta(seconds=180)
"""Kernels may have to be compiled before the first operation of a group."""


def main() -> None:
    rank, n_ranks, port = map(int, sys.argv[1:4])
    os.environ["LOCAL_RANK"] = str(rank)
    torch.set_num_threads(1)
    url = f"tcp://127.0.0.1:{port}"
    dist.init_process_group(
        "fanfold", init_method=url, rank=rank, world_size=n_ranks, timeout=TIMEOUT
    )
    groups = {"fanfold": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    at_one = FanfoldOptions(host="h1")
    groups["host"] = dist.new_group(backend="fanfold", pg_options=at_one, timeout=TIMEOUT)
    for group in groups.values():
        dist.barrier(group=group)
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line), groups, rank, n_ranks)), flush=True)
    dist.destroy_process_group()


def do(task: dict[str, Any], groups: dict[str, Any], rank: int, n_ranks: int) -> dict[str, Any]:
    """So many all_reduces in a row of an array of so many bytes."""
    if "n_casts" in task:
        return do_casts(task, groups[task["backend"]], rank)
    own = torch.full((task["n_bytes"] // 4,), float(rank + 1))
    group = groups[task["backend"]]
    dist.barrier(group=group)
    cpu_s, began = time.process_time(), time.monotonic()
    for _ in range(task["n_ops"]):
        dist.all_reduce(own, group=group)
        own /= n_ranks
    ended = time.monotonic()
    mean = (n_ranks + 1) / 2
    return {
        "began": began,
        "ended": ended,
        "cpu_s": time.process_time() - cpu_s,
        "n_wrong": int(((own - mean).abs() > 1e-3).sum()),
    }


def do_casts(task: dict[str, Any], group: Any, rank: int) -> dict[str, Any]:
    """So many broadcasts from rank 0: all asked for before one is waited for, or in a loop."""
    n_values = task["n_bytes"] // 4
    tensors = [torch.full((n_values,), float(i) * (rank == 0)) for i in range(task["n_casts"])]
    dist.barrier(group=group)
    cpu_s, began = time.process_time(), time.monotonic()
    if task.get("is_loop"):
        for tensor in tensors:
            dist.broadcast(tensor, 0, group=group)
    else:
        works = [dist.broadcast(tensor, 0, group=group, async_op=True) for tensor in tensors]
        for work in works:
            work.wait()
    ended = time.monotonic()
    return {
        "began": began,
        "ended": ended,
        "cpu_s": time.process_time() - cpu_s,
        "n_wrong": sum(int((tensor != float(i)).sum()) for i, tensor in enumerate(tensors)),
    }


if __name__ == "__main__":
    main()
