"""Arrays through live BFRs: collectives, loss, silence, and figure 1 of draft-song-ina-00."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from live_group import BLOCK, Group, values
from live_site import LiveLab, Site
from vat_nodes import GROUP, GROUP_PORT, figure_one, message, said

from fanfold.group.communicator import GroupError, Op
from fanfold.kernels.layout import BIER_PORT
from fanfold.live.ports import open_socket
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.live

N = 4
HOSTS = [f"h{i + 1}" for i in range(N)]


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "fold", "--leaves", 2, "--spines", 1, "--hosts", N)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


@pytest.fixture
def group(fabric: Fabric) -> Iterator[Group]:
    made = Group(fabric, HOSTS)
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_all_reduce_is_numpys_in_every_size(group: Group, kind: str) -> None:
    for n in (0, 1, BLOCK, BLOCK + 1, 5 * BLOCK - 1):
        for op, join in ((Op.SUM, np.sum), (Op.MAX, np.max), (Op.MIN, np.min)):
            every = [values(kind, n, seed) for seed in range(N)]
            mine = [a.copy() for a in every]
            group.each(lambda c, op=op, mine=mine: c.all_reduce(mine[c.rank], op))
            assert len({a.tobytes() for a in mine}) == 1
            if n and kind.startswith("float") and op == Op.SUM:
                exact = np.sum([a.astype(np.longdouble) for a in every], axis=0)
                bound = {"float16": 2e-2, "float32": 1e-6, "float64": 1e-14}[kind]
                assert np.abs(mine[0] - exact).max() < bound
            elif n:
                want = join(np.stack(every), axis=0).astype(kind)
                np.testing.assert_array_equal(mine[0], want)


def test_every_collective_moves_what_it_says(group: Group) -> None:
    n = 3 * BLOCK + 7
    data = [values("float32", n * N, seed) for seed in range(N)]
    parts = [d.reshape(N, n) for d in data]
    one = [d.copy() for d in data]
    group.each(lambda c: c.broadcast(one[c.rank], 2))
    assert all(np.array_equal(a, data[2]) for a in one)
    wide = [np.zeros(n * N, np.float32) for _ in range(N)]
    group.each(lambda c: c.all_gather(wide[c.rank], parts[c.rank][0]))
    assert all(np.array_equal(w, np.concatenate([p[0] for p in parts])) for w in wide)
    group.each(lambda c: c.all_to_all(wide[c.rank], data[c.rank]))
    for r in range(N):
        assert np.array_equal(wide[r], np.concatenate([p[r] for p in parts]))
    small = [np.zeros(n, np.float32) for _ in range(N)]
    group.each(lambda c: c.reduce_scatter(small[c.rank], data[c.rank], Op.MAX))
    assert all(np.array_equal(small[r], np.max([p[r] for p in parts], 0)) for r in range(N))
    group.each(lambda c: c.scatter(small[c.rank], data[1] if c.rank == 1 else None, 1))
    assert all(np.array_equal(small[r], parts[1][r]) for r in range(N))
    out = np.zeros(n * N, np.float32)
    group.each(lambda c: c.gather(out if c.rank == 3 else None, parts[c.rank][1], 3))
    assert np.array_equal(out, np.concatenate([p[1] for p in parts]))
    kept = [d.copy() for d in data]
    group.each(lambda c: c.reduce(kept[c.rank], 0, Op.MIN))
    assert np.array_equal(kept[0], np.min(data, 0))
    assert all(np.array_equal(kept[r], data[r]) for r in (1, 2, 3))
    group.each(lambda c: c.barrier())
    product = [d.copy() for d in data]
    group.each(lambda c: c.all_reduce(product[c.rank], Op.PRODUCT))
    assert len({p.tobytes() for p in product}) == 1
    np.testing.assert_allclose(product[0], np.prod(np.array(data, np.float64), 0), rtol=1e-6)


def test_uneven_parts_and_pairs(group: Group) -> None:
    counts = [[(i * 3 + j * 700) % 1900 for j in range(N)] for i in range(N)]
    data = [values("int64", sum(counts[i]), i) for i in range(N)]
    outs = [np.zeros(sum(row[j] for row in counts), np.int64) for j in range(N)]
    group.each(lambda c: c.all_to_all_v(outs[c.rank], data[c.rank], counts))
    for j in range(N):
        cut = [data[i][sum(counts[i][:j]) :][: counts[i][j]] for i in range(N)]
        assert np.array_equal(outs[j], np.concatenate(cut))
    heaps = [[np.zeros(5 * r, np.int64) for r in range(N)] for _ in range(N)]
    group.each(lambda c: c.all_gather_v(heaps[c.rank], np.full(5 * c.rank, c.rank)))
    assert all(np.array_equal(h[r], np.full(5 * r, r)) for h in heaps for r in range(N))
    a, b = np.arange(9000, dtype=np.float32), np.zeros(9000, np.float32)
    works = [group.ranks[3].recv(b, 1), group.ranks[1].send(a, 3)]
    back = np.zeros(9000, np.float32)
    works += [group.ranks[3].send(-a, 1), group.ranks[1].recv(back, 3)]
    for work in reversed(works):
        work.wait()
    assert np.array_equal(a, b)
    assert np.array_equal(back, -a)


def test_who_waits_for_one_rank_hears_its_number_in_the_group(group: Group) -> None:
    work = group.ranks[0].recv(np.zeros(4, np.int64), 2, timeout_ps=300_000_000_000)
    with pytest.raises(GroupError, match=r"^recv: .*rank 2 \(h3\)") as caught:
        work.wait()
    assert list(caught.value.ranks) == [2]
    box = np.zeros(4, np.int64)
    work = group.ranks[0].recv(box, None, timeout_ps=300_000_000_000)
    words = r"^recv: deadline, not heard: any of rank 1 \(h2\), 2 \(h3\), 3 \(h4\)$"
    with pytest.raises(GroupError, match=words):
        work.wait()
    sent = group.ranks[2].send(np.arange(4), 0)  # late is not lost: the pair goes on
    work = group.ranks[0].recv(box, None)
    assert work.source() == 2
    sent.wait()
    assert np.array_equal(box, np.arange(4))


def test_messages_are_found_by_their_tags(group: Group) -> None:
    """In another order than they were sent in; what does not fit is refused by its receiver."""
    sends = [group.ranks[1].send(np.full(3000 * tag, tag), 3, tag=tag) for tag in (1, 2, 3)]
    sends.append(group.ranks[0].send(np.full(3000, 5), 3, tag=2))
    boxes = {tag: np.zeros(3000 * tag, np.int64) for tag in (1, 2, 3)}
    for tag in (3, 2, 1):
        group.ranks[3].recv(boxes[tag], 1, tag=tag).wait()
    assert all((box == tag).all() for tag, box in boxes.items())
    box = np.zeros(3000, np.int64)
    assert group.ranks[3].recv(box, None, tag=2).source() == 0
    for work in sends:
        work.wait()
    assert (box == 5).all()
    sent, short = group.ranks[1].send(np.zeros(8), 3, tag=7), np.zeros(2, np.int32)
    words = (
        r"rank 1: send of 64 bytes of float64, tag 7; this rank receives send of 8 bytes of int"
    )
    with pytest.raises(GroupError, match=words):
        group.ranks[3].recv(short, 1, tag=7).wait()
    sent.wait()
    assert not short.any()


def test_what_is_not_finite_stands_where_it_was(group: Group) -> None:
    every = [np.ones(2 * BLOCK, np.float32) for _ in range(N)]
    every[0][3], every[1][3] = np.inf, 7
    every[1][4], every[2][4] = np.inf, -np.inf
    every[3][BLOCK + 5] = np.nan
    every[2][6] = -np.inf
    with np.errstate(invalid="ignore"):
        want = np.sum(np.array(every, np.float64), 0)
    mine = [a.copy() for a in every]
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    for a in mine:
        np.testing.assert_array_equal(a, want)
    assert group.count("not_finite_blocks") == 2 * N


def test_a_silent_rank_is_named_on_every_other_one(fabric: Fabric) -> None:
    group = Group(fabric, HOSTS)
    group.each(lambda c: c.barrier())
    mine = [np.ones(10 * BLOCK, np.float32) for _ in range(N)]
    found = group.errors(
        lambda c: (
            None if c.rank == 3 else c.all_reduce(mine[c.rank], timeout_ps=4 * PS_PER_SECOND)
        )
    )
    assert len(found) == 3
    for error in found:
        assert error.ranks == (3,)
        assert error.is_deadline
        assert "all_reduce" in str(error)
        assert "h4" in str(error)
    group.close()
    fresh = Group(fabric, ["h1", "h2", "h3"])
    fresh.each(lambda c: c.all_reduce(mine[c.rank]))
    assert all((m == 3).all() for m in mine[:3])
    fresh.close()


def test_ranks_that_were_asked_for_different_things_all_hear_it(group: Group) -> None:
    mine = [np.ones(100 + (r == 2), np.float32) for r in range(N)]
    found = group.errors(lambda c: c.all_reduce(mine[c.rank]))
    assert [error.ranks for error in found] == [(2,)] * N
    assert "404 bytes" in str(found[0])
    assert all((m == 1).all() for m in mine)
    kinds = [np.ones(8, np.int32 if r == 1 else np.float32) for r in range(N)]
    assert group.errors(lambda c: c.all_reduce(kinds[c.rank]))[3].ranks == (1,)
    narrow = [np.ones(8, np.int8 if r == 1 else np.uint8) for r in range(N)]  # equal words
    found = group.errors(lambda c: c.all_reduce(narrow[c.rank]))
    assert [error.ranks for error in found] == [(1,)] * N
    assert "rank 1: all_reduce of 32 bytes of int8 as int32, sum" in str(found[0])
    means = [np.ones(8, np.float32) for _ in range(N)]
    found = group.errors(lambda c: c.all_reduce(means[c.rank], Op.AVG if c.rank else Op.SUM))
    assert [error.ranks for error in found] == [(0,)] * N
    group.each(lambda c: c.barrier())


def test_ranks_that_differ_after_they_agreed_on_much_go_on_together(group: Group) -> None:
    """Exponents of a first window go with what is asked, and are left where ranks differ."""
    many = 12 * BLOCK
    mine = [np.ones(many, np.float32) for _ in range(N)]
    for _ in range(3):
        group.each(lambda c: c.all_reduce(mine[c.rank]))
    assert all((m == N**3).all() for m in mine)
    for odd in ({2: 3}, {1: 2 * many, 3: BLOCK}):
        ours = [np.ones(odd.get(r, many), np.float32) for r in range(N)]
        found = group.errors(lambda c, ours=ours: c.all_reduce(ours[c.rank]))
        assert [error.ranks for error in found] == [tuple(odd)] * N
        assert all((a == 1).all() for a in ours)
        group.each(lambda c: c.all_reduce(mine[c.rank], Op.MAX))
    again = [np.full(many, float(r), np.float32) for r in range(N)]
    group.each(lambda c: c.all_reduce(again[c.rank]))
    assert all((a == 6).all() for a in again)


def test_a_spine_that_starts_anew_is_armed_again(lab: LiveLab, group: Group) -> None:
    mine = [np.full(BLOCK, float(r), np.float32) for r in range(N)]
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    lab.kill("spine1")
    lab.restart("spine1")
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    assert all((m == 24).all() for m in mine)


def test_a_group_has_slots_by_its_operations(group: Group) -> None:
    """Few for a barrier, more when an array is longer; what is under way is not disturbed."""
    group.each(lambda c: c.barrier())
    assert {rank.counters()["window"] for rank in group.ranks} == {8}
    for n, window in ((20, 32), (200, 128), (3, 128)):
        mine = [np.full(n * BLOCK, float(r), np.float32) for r in range(N)]
        group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        assert all((m == 6).all() for m in mine)
        assert {rank.counters()["window"] for rank in group.ranks} == {window}
    assert group.count("shrunk") == 0


def test_a_named_switch_is_the_root(lab: LiveLab, fabric: Fabric) -> None:
    before = lab.status("spine1")["arrays"].get("complete", 0)
    group = Group(fabric, HOSTS, root="spine1")
    mine = [np.full(20 * BLOCK, r, np.int32) for r in range(N)]
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    assert all((m == 6).all() for m in mine)
    assert lab.status("spine1")["arrays"]["complete"] - before >= 20
    assert group.count("host_root") == 0
    group.close()


def test_broadcasts_that_wait_go_as_one(group: Group) -> None:
    """Each by itself is two packets of each rank at least; what differs is refused in turn."""
    group.each(lambda c: c.barrier())
    before = group.ranks[0].counters()["sent"]
    mine = [[np.full(500, 1000 * r + i, np.int32) for i in range(512)] for r in range(N)]
    works = [c.broadcast(array, 2) for c in group.ranks for array in mine[c.rank]]
    for work in works:
        work.wait()
    assert all((array == 2000 + i).all() for row in mine for i, array in enumerate(row))
    assert group.ranks[0].counters()["sent"] - before < 512
    odd = [[np.full(4 + (r == 1 and i == 5), r, np.int32) for i in range(8)] for r in range(N)]
    works = [c.broadcast(array, 0) for c in group.ranks for array in odd[c.rank]]
    for at, work in enumerate(works):
        if at % 8 == 5:
            with pytest.raises(GroupError, match="rank 1: broadcast of 20 bytes"):
                work.wait()
        else:
            work.wait()
    assert all((row[i] == 0).all() for row in odd for i in range(8) if i != 5)


def test_500_groups_of_two_work_at_once(lab: LiveLab, fabric: Fabric) -> None:
    full = lab.status("leaf1")["arrays"].get("full", 0)
    groups = [Group(fabric, ["h1", "h2"]) for _ in range(500)]
    mine = [[np.full(BLOCK, r + i, np.int32) for r in range(2)] for i in range(500)]
    works = [c.all_reduce(mine[i][c.rank]) for i, g in enumerate(groups) for c in g.ranks]
    for work in works:
        work.wait()
    assert all((m == 2 * i + 1).all() for i, pair in enumerate(mine) for m in pair)
    assert sum(group.count("host_root") for group in groups) == 0
    assert lab.status("leaf1")["arrays"].get("full", 0) == full
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(Group.close, groups))


def test_ranks_given_different_members_are_refused(fabric: Fabric) -> None:
    """Rank 3 takes h1 and h2 in the other order: roots and parts would be other hosts'."""
    swapped = [HOSTS[1], HOSTS[0], *HOSTS[2:]]
    group = Group(fabric, HOSTS, {3: swapped})
    mine = [np.ones(8, np.float32) for _ in range(N)]
    found = group.errors(lambda c: c.all_reduce(mine[c.rank]))
    assert [error.ranks for error in found] == [(3,)] * N
    assert "other members or sizes" in str(found[0])
    assert all((m == 1).all() for m in mine)
    group.close()


def test_an_array_leaves_each_host_once(lab: LiveLab, group: Group) -> None:
    before = {n: lab.status(n)["links"] for n in ("leaf1", "leaf2")}
    mine = [np.ones(400 * BLOCK, np.float32) for _ in range(N)]
    group.each(lambda c: c.all_reduce(mine[c.rank]))
    size = mine[0].nbytes
    for rank in group.ranks:  # a quarter more for exponents, headers, and repairs if it is busy
        assert rank.counters()["sent_bytes"] <= 150 * size // 100
    for leaf, links in before.items():
        after = lab.status(leaf)["links"]
        for peer, was in links.items():
            if peer == "h0":
                continue
            for way in ("tx", "rx"):
                n = after[peer][way]["fold"][1] - was[way].get("fold", [0, 0])[1]
                assert size < n <= 150 * size // 100, (leaf, peer, way)


def test_figure_one_on_live_nodes(site: Site, tmp_path: Path) -> None:
    figure = figure_one()
    config = tmp_path / "figure.toml"
    save_fabric(figure, config)
    lab = LiveLab(site, "figure", "--config", config)
    socks: dict[str, socket.socket] = {}
    ways = {"s1": ("s5", [1, 2]), "s2": ("s5", []), "s5": ("s7", []), "s7": ("s6", [3, 4])}
    try:
        for name, (up, ids) in {**ways, "s6": ("", [1, 2, 3, 4])}.items():
            told = lab.ask(name, do="vat", group=GROUP, a_bm=ids, up=up, slots=4)
            assert told == {"ok": True, "slots": 4 if ids else 0}
        assert "allowed" in lab.ask("s1", do="vat", group=1, a_bm=[], up="s7", slots=1)["error"]
        for i in range(1, 5):
            name = f"w{i}"
            socks[name] = open_socket(figure.by_name[name].address, GROUP_PORT, name)
            socks[name].settimeout(10)
        for i, words in ((3, [30, 3]), (1, [10, 1]), (2, [20, 2]), (4, [40, 4])):
            leaf = figure.neighbours[f"w{i}"][0]
            send(socks[f"w{i}"], message(1 << (i - 1), words), figure, leaf)
        for i in range(1, 5):
            got = said(socks[f"w{i}"].recv(9000))
            assert (got.words, got.bits, got.n_merged) == ((100, 10), 1 << (i - 1), 4)
        arrays = {name: lab.status(name)["arrays"] for name in (*ways, "s6")}
        assert arrays["s1"] == {"armed": 1, "absorbed": 2, "complete": 1}
        assert arrays["s7"] == {"armed": 1, "absorbed": 2, "complete": 1, "passed": 1}
        assert arrays["s6"] == {"armed": 1, "absorbed": 2, "complete": 1}
        assert arrays["s5"] == {"armed": 1, "passed": 3}
        assert lab.sent("s6", "s7", "fold") == 1  # one result for all four
    finally:
        for sock in socks.values():
            sock.close()
        lab.down()


def send(sock: socket.socket, packet: bytes, figure: Fabric, leaf: str) -> None:
    sock.sendto(packet, (figure.by_name[leaf].address, BIER_PORT))
