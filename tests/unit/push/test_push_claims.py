"""The room of a disk: who has a claim to it, and halves that go for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.push import claims
from fanfold.push.hands import OwnHands
from fanfold.push.manifest import digest
from fanfold.push.source import Wish, build_manifest
from fanfold.push.store import Incoming, ReportError, Store, StoreError

Plant = Callable[..., Path]
Content = Callable[[str, int], bytes]
Checked = Callable[[Incoming], Incoming]
Carry = Callable[..., list[int]]


def test_two_pushes_that_fit_singly_only_the_second_is_refused_by_name(
    plant: Plant, content: Content, checked: Checked, carry: Carry, small_disk: Path
) -> None:
    store = Store(small_disk / "root")
    one, one_reader = build_manifest(plant({"one": content("1", 600_000)}) / "one", 1000, 64)
    two, two_reader = build_manifest(plant({"two": content("2", 600_000)}) / "two", 1000, 64)
    first = checked(store.open_push(one))
    carry(one_reader, first, range(3))
    second = store.open_push(two)
    with pytest.raises(StoreError) as caught:
        checked(second)
    assert caught.value.code is ReportError.DISK_FULL
    assert "one, on its way here" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(list((small_disk / "root/.fanfold").iterdir())) == 1  # it left nothing
    carry(one_reader, first)
    first.finish()
    (small_disk / "root/one").unlink()
    third = checked(store.open_push(two))
    carry(two_reader, third)
    third.finish()
    assert (small_disk / "root/two").stat().st_size == 600_000


def test_a_claim_ends_with_its_push(
    plant: Plant, content: Content, checked: Checked, small_disk: Path
) -> None:
    store = Store(small_disk / "root")
    one, _ = build_manifest(plant({"one": content("1", 600_000)}) / "one", 1000, 64)
    two, _ = build_manifest(plant({"two": content("2", 600_000)}) / "two", 1000, 64)
    first = checked(store.open_push(one))
    assert first.owed_bytes == 600_000
    first.close()
    checked(store.open_push(two)).close()


def test_halves_go_for_room_the_one_that_waits_longest_first(
    plant: Plant, content: Content, checked: Checked, carry: Carry, small_disk: Path
) -> None:
    store = Store(small_disk / "root")
    names = {}
    for at, name in enumerate(("old", "older", "new")):
        manifest, reader = build_manifest(plant({name: content(name, 250_000)}), 1000, 64)
        with checked(store.open_push(manifest)) as incoming:
            carry(reader, incoming)
        names[name] = digest(manifest).hex()
        lock = small_disk / "root/.fanfold" / names[name] / "lock"
        now = lock.stat().st_mtime_ns
        os.utime(lock, ns=(0, now - (200, 300, 100)[at] * 10**9))
        (plant({}) / name).unlink()
    big, big_reader = build_manifest(plant({"big": content("b", 500_000)}) / "big", 1000, 64)
    incoming = checked(store.open_push(big))
    left = {path.name for path in (small_disk / "root/.fanfold").iterdir()}
    assert left == {names["old"], names["new"], digest(big).hex()}
    carry(big_reader, incoming)
    incoming.finish()


def test_a_half_that_nobody_opened_for_a_week_goes_with_the_next_push(
    plant: Plant, content: Content, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    store = Store(tmp_path / "root")
    ages = {"week": claims.KEEP_DAYS * claims.DAY_NS + 10**10, "day": claims.DAY_NS}
    names = {}
    for name, age in ages.items():
        manifest, reader = build_manifest(plant({name: content(name, 5000)}) / name, 10, 64)
        with checked(store.open_push(manifest)) as incoming:
            carry(reader, incoming, [0])
        names[name] = digest(manifest).hex()
        lock = tmp_path / "root/.fanfold" / names[name] / "lock"
        now = lock.stat().st_mtime_ns
        os.utime(lock, ns=(0, now - age))
    manifest, reader = build_manifest(plant({"w": b"1"}) / "w", 10, 64)
    incoming = checked(store.open_push(manifest))
    carry(reader, incoming)
    incoming.finish()
    assert [path.name for path in (tmp_path / "root/.fanfold").iterdir()] == [names["day"]]


def test_small_files_are_counted_twice_and_by_the_disks_blocks(
    plant: Plant, checked: Checked, tmp_path: Path
) -> None:
    manifest, _ = build_manifest(plant({f"{n}": b"1" for n in range(100)}), 10, 64)
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    block = os.statvfs(tmp_path).f_frsize
    assert incoming.owed_bytes == 100 + 100 * block
    incoming.close()


def test_what_a_discarded_push_staged_is_gone(
    plant: Plant, content: Content, checked: Checked, carry: Carry, tmp_path: Path
) -> None:
    files = {f"d/{n}": content(str(n), 20_000) for n in range(5)}
    manifest, reader = build_manifest(plant(files), 1000, 64, wish=Wish("m"))
    incoming = checked(Store(tmp_path / "root").open_push(manifest))
    carry(reader, incoming)
    work = OwnHands().take(incoming.discard_steps())
    while not work.is_over():
        pass
    assert list((tmp_path / "root").iterdir()) == []
