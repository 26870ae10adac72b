"""Pushes over the planes of a SuperPoD: shares by weight, and a plane that is cut."""

import json
import time

import pytest
from live_site import LiveLab, all_verified, off_prediction, wait_for, write

pytestmark = [pytest.mark.live, pytest.mark.alone]

MIB = 1 << 20
SHAPED = ("--impair", "rate=80Mbps")
PLANES = 3
BLOCK_BYTES = 64 * 9000


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
