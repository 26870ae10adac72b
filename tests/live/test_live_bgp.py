"""BGP speakers of FRR carry path bandwidth over planes; kernels weigh by it; as root.

Eight GPUs on four planes, two legs a port. Plain TCP flows and pushes go where the weights say,
failures change shares of their own plane, and flows on other planes keep their links.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from live_site import LiveLab, finish, random_bytes
from plane_flows import (
    MOST_STILL_S,
    Capture,
    Flows,
    Pair,
    Stalls,
    leg_of_ports,
    plane_of,
    ports_by_weight,
    sent_bytes,
    unstalled,
    wait_until,
)

from fanfold.kernels.jit import JIT
from fanfold.live.frr import HOLD_S, KEEPALIVE_S, ask_vtysh
from fanfold.live.lab import Lab
from fanfold.live.plane_routes import FIRST_ID, IDLE_S, group_of
from fanfold.live.plane_sight import agent_status, kernel_weights, plan_of
from fanfold.live.spaces import space_of
from fanfold.push.geometry import geometry_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(not JIT, reason="nodes of a lab are for compiled code"),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip"),
]
NAME = "live-planes"
SHAPE = ("--topology", "superpod:gpus=8,planes=4", "--namespaces", "--bgp")
BGPD = Path("/usr/lib/frr/bgpd")
N_FLOWS = 32
LEG_BPS = 400 * 10**9
FLOW_BYTES = 1 << 18
WAYS = 10_000
EVEN = {"0": 2, "1": 2, "2": 2, "3": 2}
GEOMETRY = geometry_of(9000, 256)
BLOCK_BYTES = GEOMETRY.stride * GEOMETRY.n_psn
N_BLOCKS = 120
"""Of a push: each split in question is one of whole blocks."""
LONG_MIB, RATE = 600, "600Mbps"
LOOK_S = 0.7
START_S = 15.0
SEEDS = count(1)
INSTALL_S = 180


@pytest.fixture(scope="module")
def frr():
    """FRR of Debian, installed where it is not there."""
    if not BGPD.exists() and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "-q", "--no-install-recommends", "frr"]):
            subprocess.run(
                ["apt-get", *words], capture_output=True, check=False, timeout=INSTALL_S
            )
    if not BGPD.exists() and os.environ.get("CI"):
        pytest.fail("FRR is missing: apt-get install -y frr")
    if not BGPD.exists():
        pytest.skip("no FRR here; on Debian: apt-get install -y frr")


@pytest.fixture(scope="module")
def lab(site, frr):
    made = LiveLab(site, NAME, *SHAPE)
    made.lab = Lab(NAME)
    made.lab.folder, made.lab.control_sockets = made.folder, made.folder / "control"
    made.plan = plan_of(made.lab)
    try:
        yield made
    finally:
        made.down()
        assert [path.name for path in Path("/run/netns").glob(f"ff.{NAME}.*")] == []
        assert list(Path("/run/frr").glob(f"ff:{NAME}:*")) == []
        assert not (made.folder / "planes.json").exists()
        assert [pid for pid in site.pids() if "plane_agent" in command_of(pid)] == []


@pytest.fixture
def whole(lab):
    """The lab with nothing broken, at the end too: new flows split evenly."""
    yield lab
    lab.site.run("lab", "heal", "--name", NAME)
    wait_until(lambda: all(weights(lab, h) == EVEN for h in ("h0", "h6")), "even again")
    wait_until(lambda: is_settled(lab), "flows that are new go by weights")


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def weights(lab, src="h0", dst="h3"):
    return kernel_weights(lab.lab, lab.plan, src).get(dst, {})


def buckets(lab):
    """Buckets of h0's group to h3, by plane."""
    group = group_of(f"{pair_of(lab).to}/32")
    words = [
        "ip",
        "-n",
        space_of(NAME, "h0"),
        "-j",
        "nexthop",
        "bucket",
        "show",
        "id",
        str(group),
    ]
    rows = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    legs = lab.plan.at_host("h0")
    return Counter(str(legs[row["bucket"]["nhid"] - FIRST_ID].plane) for row in rows)


def is_weighed(lab, wanted):
    found = weights(lab)
    return bool(found) and is_near(split(Counter(found)), wanted, 0.0)


def is_settled(lab):
    """Flows that are new go by the weights."""
    return bool(weights(lab)) and is_near(split(buckets(lab)), weights(lab), 0.02)


def seen_of(lab):
    """Weights in h0's kernel, and what its agent knows, for those who wait in vain."""
    return (
        weights(lab),
        agent_status(lab.lab).get("h0"),
        (lab.folder / "lab.log").read_text()[-800:],
    )


def fail(lab, *words):
    lab.site.read("lab", "fail", *words, "--name", NAME)


def pair_of(lab, src="h0", dst="h3"):
    addresses = {each.name: each.address for each in lab.plan.hosts}
    return Pair(NAME, src, dst, addresses[src], addresses[dst])


def split(counts):
    return {plane: n / sum(counts.values()) for plane, n in counts.items()}


def is_near(found, wanted, part=0.1):
    """Each plane's part within a tenth of its share; nothing where it has none."""
    shares = split(Counter(wanted))
    return all(abs(found.get(p, 0) - share) <= part * share for p, share in shares.items())


def test_all_sessions_are_up_and_weights_are_in_frr_and_in_the_kernel(lab):
    assert lab.told["sessions"] == 64
    assert lab.told["seconds"] < START_S
    told = [json.loads(ask_vtysh(NAME, f"leaf{n}", "show bgp summary json")) for n in range(4)]
    states = [peer["state"] for leaf in told for peer in leaf["ipv4Unicast"]["peers"].values()]
    assert Counter(states) == {"Established": 64}
    to = pair_of(lab).to
    route = json.loads(ask_vtysh(NAME, "h0", f"show ip route {to}/32 json"))[f"{to}/32"][0]
    hops = [(hop["interfaceName"], hop["weight"]) for hop in route["nexthops"]]
    assert sorted(hops) == [(f"plane{p}-{leg}", 12) for p in range(4) for leg in range(2)]
    paths = json.loads(ask_vtysh(NAME, "h0", f"show bgp ipv4 unicast {to}/32 json"))["paths"]
    # two legs of 400 Gbit/s carried as 4,000 Mbit/s each: 10**9 bytes per second, of the leaf
    said = {path["extendedCommunity"]["string"] for path in paths}
    assert said == {f"LB:{64512 + n}:1000000000 (8.000 Gbps)" for n in range(4)}
    status = lab.site.read("lab", "status", "--name", NAME)[0]["planes"]
    assert status["sessions"] == {"up": 64, "of": 64}
    assert (status["scale"], status["resilient"], status["refused"]) == (100, True, {})
    hosts = {f"h{n}" for n in range(8)}
    assert status["hosts"] == {h: dict.fromkeys(sorted(hosts - {h}), EVEN) for h in hosts}
    shown = lab.site.run("lab", "status", "--name", NAME).stdout
    assert "h0: planes by weight 2:2:2:2 to h1, h2, h3, h4, h5, h6, h7\n" in shown


@pytest.mark.parametrize(
    ("broken", "wanted"),
    [
        ((), EVEN),
        (
            (
                ("half-cable", "gpu3-plane1"),
                ("half-cable", "h3-plane2"),
                ("half-cable", "h3-plane3"),
            ),
            {"0": 2, "1": 1, "2": 1, "3": 1},
        ),
        ((("port", "h3-plane0"),), {"0": 0, "1": 2, "2": 2, "3": 2}),
    ],
    ids=["1:1:1:1", "2:1:1:1", "0:1:1:1"],
)
def test_plain_flows_and_pushes_split_by_weight(whole, tmp_path, broken, wanted):
    for words in broken:
        fail(whole, *words)
    wait_until(
        lambda: weights(whole) and is_near(split(Counter(weights(whole))), wanted, 0.0),
        f"weights {wanted}",
    )
    assert weights(whole, "h0", "h5") == EVEN  # whoever is not concerned keeps its weights
    wait_until(lambda: is_settled(whole), "flows that are new go by weights")
    maps = whole.site.run("topo", "--lab", NAME, "--cost-map").stdout
    _, bandwidth = json.loads(maps)["application/alto-costmap+json"]
    assert bandwidth["cost-map"]["h0"]["h3"] == sum(wanted.values()) * LEG_BPS
    assert bandwidth["cost-map"]["h5"]["h6"] == sum(EVEN.values()) * LEG_BPS
    pair = pair_of(whole)
    ways = Counter(
        plane_of(d) for d in leg_of_ports(pair, range(40_000, 40_000 + WAYS)).values()
    )
    assert is_near(split(ways), wanted), ways
    with closing(Flows(pair, ports_by_weight(pair, wanted, N_FLOWS))) as flows:
        before = sent_bytes(pair)
        flows.send(FLOW_BYTES)
        sent = sent_bytes(pair)
    found = split(Counter({plane: sent[plane] - before[plane] for plane in sent}))
    assert is_near(found, wanted) or (wanted["0"] == 0 and found["0"] < 0.001), found
    push_by_weight(whole, tmp_path, wanted)


def push_by_weight(lab, folder, wanted):
    """A push to all, one to h3 alone: bytes of blocks by plane within 2 % of the weights."""
    used = [f"leaf{plane}" for plane, weight in wanted.items() if weight]
    wait_until(
        lambda: all(lab.status("h3")["neighbours"][n]["state"] == "up" for n in used),
        "nodes see each other over what is left of a cable",
    )
    for flags in ((), ("--to", "h3")):
        result = unstalled(lambda flags=flags: lab.push(fresh(folder), *flags))
        sent = {str(row["plane"]): row["bytes"] for row in result["planes"]}
        assert is_near(split(sent), wanted, 0.02), (flags, split(sent), result["weights"])
        assert {row["source"] for row in result["weights"]} == {"bgp"}
        assert split(result["weights"][0]["weights"]) == split(wanted)
        assert {row["state"] for row in result["receivers"]} == {"verified"}


def fresh(folder, n_bytes=N_BLOCKS * BLOCK_BYTES):
    """A file that no receiver has."""
    seed = next(SEEDS)
    path = folder / f"file{seed}"
    part = random_bytes(1 << 20, seed)
    with path.open("wb") as file:
        for _ in range(n_bytes // len(part)):
            file.write(part)
        file.write(part[: n_bytes % len(part)])
    return path


HALVES = tuple(("half-cable", f"h3-plane{n}") for n in (1, 2, 3))
STAGES = (
    ((), EVEN),
    (HALVES, {"0": 2, "1": 1, "2": 1, "3": 1}),
    ((("port", "gpu3-plane0"),), {"0": 0, "1": 1, "2": 1, "3": 1}),
    ((("leaf", "plane3"),), {"0": 0, "1": 1, "2": 1, "3": 0}),
    (None, EVEN),
)
"""What fails beside the rest while a push runs, None: all is well again; the weights then."""


def shares_of(lab):
    """What part of all bytes leaves h0 by each plane, for LOOK_S from now on."""
    before = sent_bytes(pair_of(lab))
    time.sleep(LOOK_S)
    after = sent_bytes(pair_of(lab))
    sent = {plane: after[plane] - before[plane] for plane in after}
    return split(sent) if sum(sent.values()) > BLOCK_BYTES else sent  # or it is over


def seconds_until_split(lab, wanted, n_looks=9):
    """From now until bytes go by each plane within two points of its share; None: never."""
    began_s, shares = time.monotonic(), split(Counter(wanted))
    for _ in range(n_looks):
        looked_s, found = time.monotonic(), shares_of(lab)
        if all(abs(found[plane] - shares[plane]) < 0.02 for plane in shares):
            return looked_s - began_s
    return None


def push_through(lab, path):
    """A push to h3 while planes fail and come back: seconds until each split, its result."""
    push = lab.start_push(path, "--to", "h3", "--rate", RATE)
    before = lab.sent("leaf0", "h3")
    wait_until(lambda: lab.sent("leaf0", "h3") > before + 100, "the push is under way")
    found = []
    for broken, wanted in STAGES:
        for words in broken or ():
            fail(lab, *words)
        if broken is None:
            lab.site.read("lab", "heal", "--name", NAME)
        found.append(seconds_until_split(lab, wanted))
    code, out, err = finish(push)
    assert code == 0, err
    return found, json.loads(out)


def test_a_push_under_way_follows_the_weights(whole, tmp_path):
    for _ in range(2):  # once more where this machine stood still, and it shows
        with Stalls() as stalls:
            found, result = push_through(whole, fresh(tmp_path, LONG_MIB << 20))
        if None not in found or stalls.longest_s < MOST_STILL_S:
            break
    assert None not in found, (found, result["weights"])
    even, halves, port, leaf, _ = found
    assert even < LOOK_S
    assert max(halves, port, leaf) < 4 * LOOK_S, (found, result["weights"])
    assert [row["state"] for row in result["receivers"]] == ["verified"]
    assert result["repairs"]["bytes"] < 0.02 * result["bytes"]
    told = [tuple(row["weights"].values()) for row in result["weights"]]
    for wanted in ((1, 1, 1, 1), (2, 1, 1, 1), (0, 1, 1, 1), (0, 1, 1, 0)):
        assert wanted in told
    assert told[-1] == (1, 1, 1, 1)


def fail_a_port(lab):
    """32 busy flows, a port that fails and comes back: what was sent, and when."""
    wait_until(lambda: weights(lab) == EVEN and is_settled(lab), "even, for new flows too")
    pair = pair_of(lab)
    chosen = ports_by_weight(pair, EVEN, N_FLOWS)
    with closing(Flows(pair, chosen)) as flows, Capture(pair) as capture, flows.pulse():
        time.sleep(0.3)
        failed_s = time.monotonic()
        fail(lab, "port", "h3-plane2")
        wait_until(lambda: weights(lab).get("2") == 0, "plane 2 has no weight")
        time.sleep(0.8)
        healed_s = time.monotonic()
        lab.site.read("lab", "heal", "--name", NAME)
        wait_until(lambda: weights(lab) == EVEN, "even again")
        even_s = time.monotonic() - healed_s
        time.sleep(2 * IDLE_S)
    return chosen, capture.seen, failed_s, healed_s, even_s


def test_a_port_that_fails_is_left_at_once_and_flows_on_other_planes_keep_their_links(whole):
    found = unstalled(lambda: fail_a_port(whole))
    chosen, seen, failed_s, healed_s, even_s = found
    legs = {port: {s.device for s in seen if s.port == port} for port in chosen}
    kept = {port: device for port, device in chosen.items() if plane_of(device) != "2"}
    assert {port: legs[port] for port in kept} == {port: {leg} for port, leg in kept.items()}
    dead = [s.at_s for s in seen if plane_of(s.device) == "2" and failed_s < s.at_s < healed_s]
    last_s = max(dead) - failed_s
    assert last_s < 1 < HOLD_S, (last_s, even_s)
    assert even_s < 2 * HOLD_S, (last_s, even_s)
    late = {s.port for s in seen if failed_s + last_s < s.at_s < healed_s}
    assert late == set(chosen)  # those of the dead plane go on by others


def test_ranks_find_their_hosts_namespaces(lab):
    words = ("reduce-bench", "--lab", NAME, "--ranks", "h1,h2,h3", "--sizes", "64KiB")
    (row,) = lab.site.read(*words)
    assert (row["wrong"], row["same_bits"]) == (0, True)


def silence_a_leaf(lab):
    """Seconds from a leaf's speaker that stands still, no carrier lost, to its plane's end."""
    wait_until(lambda: weights(lab) == EVEN, "even")
    pid = int(Path(f"/run/frr/ff:{NAME}:leaf1/bgpd").read_text())
    began_s = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        without = {"0": 2, "1": 0, "2": 2, "3": 2}
        wait_until(lambda: weights(lab) == without, "plane 1 is left", lambda: seen_of(lab))
        return time.monotonic() - began_s
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_leaf_that_dies_in_silence_is_left_when_its_sessions_are_over(whole):
    found_s = unstalled(lambda: silence_a_leaf(whole))
    assert HOLD_S - KEEPALIVE_S - 0.5 < found_s < HOLD_S + 2


def test_a_dead_leaf_costs_each_pair_its_plane(lab):
    # the last one here: `lab down` follows, and has to find its way from what is broken
    fail(lab, "leaf", "plane3")
    want = {"0": 2, "1": 2, "2": 2, "3": 0}
    wait_until(lambda: weights(lab, "h0", "h7") == weights(lab, "h6", "h1") == want, "3 of 4")

    def sessions():
        return lab.site.read("lab", "status", "--name", NAME)[0]["planes"]["sessions"]

    wait_until(lambda: sessions() == {"up": 48, "of": 64}, "a quarter of all sessions is over")
    status = lab.site.read("lab", "status", "--name", NAME)[0]
    assert status["failed"] == ["leaf plane3"]
