"""Pushes over the planes of a SuperPoD: shares by weight, and a plane that is cut."""

import json
import time

import numpy as np
import pytest
from live_group import Group
from live_site import LiveLab, all_verified, off_prediction, wait_for, write

from fanfold.errors import ConfigError
from fanfold.group.communicator import Op
from fanfold.impair import Impairment
from fanfold.topo.fabric_file import load_fabric
from fanfold.units import PPB_ONE

pytestmark = [pytest.mark.live, pytest.mark.alone]

MIB = 1 << 20
SHAPED = ("--impair", "rate=80Mbps")
PLANES = 3
BLOCK_BYTES = 64 * 9000
N_VALUES = 300_001
N_LONG, LONG_BPS = 1 << 21, 100_000_000
LONG_S = 32 * N_LONG / LONG_BPS / PLANES


@pytest.fixture(scope="module")
def lab(site):
    made = LiveLab(site, "planes", "--topology", f"superpod:gpus=4,planes={PLANES}")
    yield made
    made.down()


def shares(result):
    """What part of all bytes that left went by each plane."""
    sent = {row["plane"]: row["bytes"] + row["repair_bytes"] for row in result["planes"]}
    return {plane: n / sum(sent.values()) for plane, n in sent.items()}


def test_planes_carry_alike_what_was_predicted(lab, tmp_path):
    result = lab.push(write(tmp_path, "even", 30 * MIB, 1))
    assert all_verified(lab, result)
    assert off_prediction(result) == []
    assert [row["weight"] for row in result["planes"]] == [1] * PLANES
    for row in result["planes"]:
        assert row["bytes"] == row["predicted_bytes"]
        assert abs(row["bytes"] - 10 * MIB) <= BLOCK_BYTES


def test_planes_that_are_named_carry_all_of_it(lab, tmp_path):
    path = write(tmp_path, "named", 4 * MIB, 2)
    result = lab.push(path, "--planes", "2", "--to", "h3")
    assert [row["plane"] for row in result["planes"]] == [2]
    assert off_prediction(result) == []
    assert {way for way in ends(result) if way[0] == "h0"} == {("h0", "leaf2")}
    done = lab.site.run("push", path, "--lab", lab.name, "--planes", "0,3")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("allowed: auto, or of the planes of h0: 0, 1, 2")


def test_a_plane_that_is_cut_costs_its_share_and_no_more(lab, tmp_path):
    path = write(tmp_path, "cut", 60 * MIB, 3)
    push = lab.start_push(path, *SHAPED)
    while lab.sent("leaf1", "h1") < 500:
        time.sleep(0.05)
    assert lab.site.run("lab", "fail", "link", "h2-leaf1", "--name", lab.name).returncode == 0
    out, err = push.communicate(timeout=60)
    lab.site.run("lab", "heal", "--name", lab.name)
    assert push.returncode == 0, err
    result = json.loads(out)
    assert all_verified(lab, result)
    part = shares(result)
    assert part[1] < 0.25
    assert part[0] == pytest.approx(part[2], abs=0.04)


def test_sums_over_planes_have_the_bits_of_one_and_each_plane_its_share(lab):
    fabric = load_fabric(lab.folder / "fabric.toml")
    over = {text: Group(fabric, ["h1", "h2", "h3"], planes=text) for text in ("1", "auto")}
    random = np.random.default_rng(4)
    for kind, op in (("float32", Op.SUM), ("float16", Op.AVG), ("int64", Op.AVG)):
        data = [(1000 * random.standard_normal(N_VALUES)).astype(kind) for _ in range(3)]
        data[1][7] = np.inf if kind == "float32" else 1
        found = []
        for group in over.values():
            mine = [array.copy() for array in data]
            group.each(lambda c, mine=mine, op=op: c.all_reduce(mine[c.rank], op))
            found += mine
        assert len({array.tobytes() for array in found}) == 1
    told = over["auto"].ranks[0].counters()
    sent = [told[f"plane{plane}_sent_bytes"] for plane in range(PLANES)]
    assert max(sent) < 1.2 * min(sent)
    for group in over.values():
        group.close()


def test_blocks_that_a_rank_lacks_are_joined_again_from_what_they_were(lab):
    """One rank hears nothing more over a plane while its arrays still go up there."""
    group = Group(load_fabric(lab.folder / "fabric.toml"), ["h1", "h2", "h3"], planes="auto")
    data = [np.arange(rank, rank + N_LONG, dtype=np.int32) for rank in range(3)]
    mine = [array.copy() for array in data]
    group.each(lambda c: c.all_reduce(np.ones(N_VALUES)))
    for rank in group.ranks:
        for place in range(PLANES):
            rank.end.impair(place, Impairment(rate_bps=LONG_BPS), 1)
    before = group.count("plane0_sent_bytes")

    def cut(rank):
        if rank.rank == 2:
            time.sleep(LONG_S / 3)
            group.ranks[1].end.impair(1, Impairment(drop_ppb=PPB_ONE), 1)
        return work_of[rank.rank]

    work_of = [rank.all_reduce(mine[rank.rank]) for rank in group.ranks]
    with pytest.warns(RuntimeWarning, match="plane 1 is silent and given up"):
        group.each(cut)
    assert all(np.array_equal(array, sum(data)) for array in mine)
    share = (group.count("plane0_sent_bytes") - before) / sum(array.nbytes for array in data)
    assert 1 / 3 < share < 0.55  # a third, and half of what was on plane 1
    assert {rank.counters()["planes_used"] for rank in group.ranks} == {2}

    def mend():
        group.ranks[1].end.impair(1, Impairment(), 1)
        wait_for(lambda: group.count("planes_used") == 3 * PLANES, "plane 1 is used again")
        group.each(lambda c: c.all_reduce(mine[c.rank]))

    with pytest.warns(RuntimeWarning, match="plane 1 answers again"):
        mend()
    assert all(np.array_equal(array, 3 * sum(data)) for array in mine)
    group.close()


def test_what_planes_cannot_have_is_refused(lab):
    fabric = load_fabric(lab.folder / "fabric.toml")
    for more, words in (
        ({"planes": "5"}, "planes: got '5', allowed: auto, or of the planes of h1: 0, 1, 2"),
        ({"root": "h1"}, "root: got 'h1', allowed: none: arrays go over several planes"),
        ({"stragglers": "partial"}, "allowed: wait: arrays go over several planes"),
    ):
        with pytest.raises(ConfigError) as caught:
            Group(fabric, ["h1", "h2", "h3"], **{"planes": "auto", **more})
        assert str(caught.value).endswith(words)


def test_sums_go_over_a_plane_that_no_rank_has_lost(lab):
    fail = ("lab", "fail", "link", "h2-leaf1", "--name", lab.name)
    assert lab.site.run(*fail).returncode == 0
    states = ("h2", "leaf1"), ("leaf1", "h2")
    wait_for(
        lambda: all(
            lab.status(name)["neighbours"][to]["state"] == "down" for name, to in states
        ),
        "both ends see that the link is down",
    )
    words = ("reduce-bench", "--lab", lab.name, "--ranks", "h1,h2,h3", "--sizes", "64KiB")
    (row,) = lab.site.read(*words)
    assert row["plane"] in (0, 2)
    assert (row["wrong"], row["same_bits"]) == (0, True)
    shown = lab.site.run(*words).stdout.splitlines()[-1]
    assert shown in [f"all of it went over plane {plane}, one of 3" for plane in (0, 2)]
    lab.site.run("lab", "heal", "--name", lab.name)


def ends(result):
    """Links on which data of a push went."""
    return [(row["from"], row["to"]) for row in result["links"] if row["packets"]]
