"""What arrives: folders, names, modes, holes and links, over good links and lossy ones.

Nothing here is judged by a clock or by counts that a busy machine changes.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_cache import make_hub_cache
from live_site import (
    LiveLab,
    Site,
    all_verified,
    data_packets,
    finish,
    random_bytes,
    wait_for,
    write,
)

pytestmark = pytest.mark.live

MB = 1_000_000


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "arrivals", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


def test_a_tree_arrives_with_its_names_modes_and_empty_files(
    lab: LiveLab, tmp_path: Path
) -> None:
    top = tmp_path / "tree"
    files = {
        "plain": b"x" * 70_000,
        "empty": b"",
        "-rf *": b"dash and star",
        "with space/and ünïcode ☃/deep/er": random_bytes(700_000, 4),
        "line\nbreak": b"\n",
        ".hidden": b"",
        "a" * 255: b"longest name",
        "$(id)`id`;'\"": b"shell",
    }
    for name, contents in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(contents)
    (top / "plain").chmod(0o750)
    (top / ".hidden").chmod(0o600)
    (top / "bare").mkdir(mode=0o700)
    result = lab.push(top)
    assert all_verified(lab, result)
    for host in lab.receivers:
        there = lab.received(host, "tree")
        found = {name: (there / name).read_bytes() for name in files}
        assert found == files
        for name in ("plain", ".hidden", "bare", "."):
            was, now = (top / name).stat(), (there / name).stat()
            assert (now.st_mode, now.st_mtime_ns) == (was.st_mode, was.st_mtime_ns)
    again = lab.push(top)
    assert data_packets(again) == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_loss_everywhere_always_completes(lab: LiveLab, tmp_path: Path, seed: int) -> None:
    path = write(tmp_path, f"lossy{seed}.bin", 4 * MB, 20 + seed)
    result = lab.push(path, "--loss", "1%", "--seed", seed, timeout_s=40)
    assert all_verified(lab, result)
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def test_links_are_good_again_after_an_impaired_push(lab: LiveLab, tmp_path: Path) -> None:
    lab.push(write(tmp_path, "bad.bin", MB, 30), "--loss", "2%")
    before = {n: lab.status(n)["drops"].get("impaired", 0) for n in lab.nodes()}
    lab.push(write(tmp_path, "good.bin", MB, 31))
    assert {n: lab.status(n)["drops"].get("impaired", 0) for n in lab.nodes()} == before


def test_two_folders_do_not_mix_and_a_new_version_replaces_the_old(
    lab: LiveLab, tmp_path: Path
) -> None:
    for name in ("modelA", "modelB"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, "config.json", 100, len(name))
        write(tmp_path / name, f"only-{name}", 5000, 31)
    for name in ("modelA/", "modelB"):
        assert all_verified(lab, lab.push(tmp_path / name))
    for host in lab.receivers:
        for name in ("modelA", "modelB"):
            found = sorted(path.name for path in lab.received(host, name).iterdir())
            assert found == ["config.json", f"only-{name}"]
    (tmp_path / "modelA/only-modelA").unlink()
    data = write(tmp_path / "modelA", "config.json", 99, 33).read_bytes()
    assert all_verified(lab, lab.push(tmp_path / "modelA", "--delete"))
    for host in lab.receivers:
        there = {
            path.name: path.read_bytes() for path in lab.received(host, "modelA").iterdir()
        }
        assert there == {"config.json": data}


def test_nothing_but_empty_files_arrives(lab: LiveLab, tmp_path: Path) -> None:
    (tmp_path / "hollow/bare").mkdir(parents=True)
    (tmp_path / "hollow/none").touch()
    result = lab.push(tmp_path / "hollow")
    assert all_verified(lab, result)
    assert (result["bytes"], result["n_blocks"], data_packets(result)) == (0, 0, 0)
    for host in lab.receivers:
        there = lab.received(host, "hollow")
        assert sorted(path.name for path in there.iterdir()) == ["bare", "none"]


@pytest.fixture
def safe_lab() -> Iterator[LiveLab]:
    """Receivers that wait for their disk; in memory, where it keeps nobody else waiting."""
    memory = Path("/dev/shm")
    state = Path(tempfile.mkdtemp(prefix="fanfold-", dir=memory if memory.is_dir() else None))
    made = LiveLab(Site(state), "fsync", "--hosts", 8, "--fsync")
    yield made
    made.down()
    made.site.end_all()
    shutil.rmtree(state, ignore_errors=True)


@pytest.mark.parametrize("which", ["lab", "safe_lab"])
def test_thousands_of_small_files_end_verified(
    request: pytest.FixtureRequest, tmp_path: Path, which: str
) -> None:
    """4,000 files to eight receivers on one machine; no time is asked for."""
    lab: LiveLab = request.getfixturevalue(which)
    top = tmp_path / "many"
    for n in range(4000):
        if n % 500 == 0:
            (top / f"d{n // 500}").mkdir(parents=True)
        (top / f"d{n // 500}/f{n}").write_bytes(n.to_bytes(4) * (1 + n % 700))
    result = lab.push(top, timeout_s=120.0)
    assert all_verified(lab, result)
    for host in lab.receivers[:2]:
        there = lab.received(host, "many")
        for path in top.rglob("f*"):
            assert (there / path.relative_to(top)).read_bytes() == path.read_bytes()


def test_a_snapshot_of_a_hub_cache_arrives_as_files(lab: LiveLab, tmp_path: Path) -> None:
    snapshot = make_hub_cache(tmp_path, 6 * MB, 31)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/adapter.bin").write_bytes(random_bytes(70_000, 32))
    (snapshot / "adapter.bin").symlink_to(tmp_path / "shared/adapter.bin")
    refused = lab.site.run(*lab.push_args(snapshot))
    assert refused.returncode == 2
    assert "adapter.bin" in refused.stdout + refused.stderr
    result = lab.push(snapshot, "--as", "model", "--follow", tmp_path / "shared", "--strict")
    assert all_verified(lab, result)
    names = sorted(path.relative_to(snapshot) for path in snapshot.rglob("*") if path.is_file())
    assert len(names) == 11
    for host in lab.receivers:
        there = lab.received(host, "model")
        got = [path for path in there.rglob("*") if not path.is_dir()]
        assert sorted(path.relative_to(there) for path in got) == names
        assert not any(path.is_symlink() for path in got)
        assert all((there / n).read_bytes() == (snapshot / n).read_bytes() for n in names)


def test_a_sparse_file_costs_its_data_only(lab: LiveLab, tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(256 << 20)
        file.seek(100 << 20)
        file.write(random_bytes(MB, 41))
    result = lab.push(path)
    assert all_verified(lab, result)
    assert result["source_link_bytes"] < 4 * MB
    for host in lab.receivers:
        there = lab.received(host, "sparse.bin").stat()
        assert there.st_size == 256 << 20
        assert there.st_blocks * 512 < 4 * MB


def test_two_senders_of_the_same_one_waits_and_says_for_whom(
    lab: LiveLab, tmp_path: Path
) -> None:
    path, before = write(tmp_path, "same.bin", 6 * MB, 51), lab.sent("leaf1", "h3")
    to = ("--to", "h3-5", "--rate", "16Mbps")
    first = lab.start_push(path, "--from", "h1", *to)
    wait_for(lambda: lab.sent("leaf1", "h3") > before, "data on its way", 30)
    second = lab.start_push(path, "--from", "h2", *to)
    ends = [finish(push) for push in (first, second)]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert "waits: h1 is pushing the same here" in ends[1][2]
    assert data_packets(json.loads(ends[1][1])) == 0
