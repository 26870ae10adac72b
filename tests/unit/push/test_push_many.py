"""Thousands of files: what each one costs, and that many cost no more each than few."""

import os
import stat
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fanfold.push import placing, small_files
from fanfold.push.manifest import decode, encode
from fanfold.push.source import Wish, build_manifest
from fanfold.push.store import Incoming, Store

Plant = Callable[..., Path]
Checked = Callable[[Incoming], Incoming]
Carry = Callable[..., list[int]]
FEW, MANY = 300, 900


def calls_of(work: Callable[[], Any]) -> int:
    """Calls of functions while something is done, of this thread."""
    n = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal n
        n += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return n


def costs_of(source: Path, root: Path, name: str) -> dict[str, int]:
    """Calls of each part of a push, sender and receiver."""
    counts: dict[str, int] = {}

    def step(part: str, work: Callable[[], Any]) -> Any:
        kept: list[Any] = []
        counts[part] = calls_of(lambda: kept.append(work()))
        return kept[0]

    manifest, reader = step("build", lambda: build_manifest(source, 700, 64, wish=Wish(name)))
    step("decode", lambda: decode(encode(manifest)))
    incoming = step("open", lambda: Store(root).open_push(manifest, key=bytes(32)))
    step("check", lambda: [None for _ in iter(lambda: incoming.check_some(1 << 20), True)])
    buffer = memoryview(bytearray(reader.layout.chunk_bytes))
    chunks = range(reader.layout.n_chunks)
    step(
        "carry",
        lambda: [
            incoming.write_chunk(i, buffer[: reader.read_chunk(i, buffer)]) for i in chunks
        ],
    )
    step("finish", incoming.finish)
    reader.close()
    return counts


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        (
            "model",
            {"build": 48, "decode": 4, "open": 2, "check": 20, "carry": 16, "finish": 13},
        ),
        (".", {"build": 48, "decode": 4, "open": 2, "check": 32, "carry": 16, "finish": 60}),
    ],
)
def test_a_file_more_costs_some_calls_more(
    plant: Plant, tmp_path: Path, name: str, bounds: dict[str, int]
) -> None:
    """Bounds are a tenth above what was counted: one call more for each file is seen."""
    found = {}
    for n in (FEW, MANY):
        top = plant({f"d{k // 100}/f{k:04}": k.to_bytes(2) * 700 for k in range(n)}, f"src{n}")
        found[n] = costs_of(top, tmp_path / f"root{n}", name)
    each = {k: (found[MANY][k] - found[FEW][k]) / (MANY - FEW) for k in bounds}
    assert {k: c for k, c in each.items() if c > bounds[k]} == {}, each


@pytest.mark.parametrize("name", ["model", "."])
def test_a_disk_is_waited_for_in_parts_with_signs_of_life(
    plant: Plant,
    checked: Checked,
    carry: Carry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """Memory may hold minutes of a slow disk's work: no step waits for all of it."""
    size = 1 << 20
    small = {f"s{k:03}": bytes([k]) * 10_000 for k in range(250)}
    top = plant(small | {"big": b"b" * (5 * size // 2), "empty": b""})
    monkeypatch.setattr(small_files, "FLUSH_BYTES", size)
    monkeypatch.setattr(placing, "FLUSH_BYTES", size)
    told: list[object] = []
    ranges = lambda _, at, n: told.append((at, n))  # noqa: E731
    monkeypatch.setattr(placing, "flush_range", ranges)
    monkeypatch.setattr(small_files, "flush_disk", lambda _: told.append("disk"))
    manifest, reader = build_manifest(top, 1000, 64, wish=Wish(name))
    incoming = checked(Store(tmp_path / "root", fsync=True).open_push(manifest))
    carry(reader, incoming)
    waits = []
    for _ in incoming.finish_steps():
        waits.append(len(told))
    assert told[:2] == ["disk", "disk"]  # of small files, each time as many bytes are made
    assert [told.index((at, size)) for at in (0, size, 2 * size)] == [2, 3, 4]
    assert told[5:] == ["disk"] * 2
    assert max(b - a for a, b in pairwise(waits)) == 1


@pytest.mark.parametrize("mask", [0o022, 0o077, 0])
def test_modes_are_exact_whatever_the_umask(
    plant: Plant, checked: Checked, carry: Carry, tmp_path: Path, mask: int
) -> None:
    modes = {"a": 0o644, "b": 0o600, "c": 0o666, "d": 0o444, "e": 0o755, "f": 0o644, "g": 0}
    top = plant(dict.fromkeys(modes, b"x" * 100))
    for name, mode in modes.items():
        (top / name).chmod(mode)
    manifest, reader = build_manifest(top, 10, 4, wish=Wish("model"))
    was = os.umask(mask)
    try:
        incoming = checked(Store(tmp_path / "root").open_push(manifest))
        carry(reader, incoming)
        incoming.finish()
    finally:
        os.umask(was)
    got = {n: stat.S_IMODE((tmp_path / "root/model" / n).stat().st_mode) for n in modes}
    assert got == modes
