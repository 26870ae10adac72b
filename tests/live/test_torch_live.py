"""PyTorch programs through software BFRs, each rank a process on a host of a lab."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forks import Nursery
from live_site import LiveLab, wait_for
from torch_need import need_torch

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.slow]
need_torch()

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "train_ddp.py"
N = 4
FLOATS = ("ddp", "fsdp1", "fsdp2")
CUT_S = 1.5
BOUND = 1e-5
"""Losses of two steps: floats are added exactly here, one after the other by gloo."""


@pytest.fixture(scope="module")
def nodes(site):
    made = LiveLab(site, "torch", "--hosts", N, "--leaves", 2)
    yield made
    made.down()


@pytest.fixture
def pod(site):
    made = LiveLab(site, "pod", "--topology", f"superpod:gpus={N},planes=3,legs=1")
    yield made
    made.down()


@pytest.fixture(scope="module")
def lab(site, nodes):
    return {**site.env, "FANFOLD_LAB": nodes.name, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def nursery(lab):
    made = Nursery(lab, str(HERE / "torch_forks.py"))
    yield made
    made.end()


def begin(nursery, n, script, *args, **more):
    """Ranks of a program, each a process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [str(HERE / script), *map(str, args)]
    return [
        nursery.start(words, {**world, **more, "RANK": str(r), "LOCAL_RANK": str(r)})
        for r in range(n)
    ]


def ends_of(ranks):
    """What they printed and warned of; all must end well."""
    ends = [rank.communicate(timeout=200) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), [e[-2000:] for _, e in ends]
    return ends


def told_by(ranks):
    """JSON that each printed, and what it warned of."""
    return [(json.loads(out), err) for out, err in ends_of(ranks)]


def torchrun(env, *args, flags=()):
    """What ranks print that PyTorch's own launcher starts."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *flags]
    done = subprocess.run(
        [*command, "--nproc-per-node", str(N), *map(str, args)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def toys(nursery, folder, **more):
    """What they find by fanfold; who begins twice needs a launcher, which keeps the store."""
    file = folder / "found.json"
    ends_of(begin(nursery, N, "torch_toys.py", file, "fanfold", **more))
    return json.loads(file.read_text())["fanfold"]


@pytest.fixture(scope="module")
def found(lab, tmp_path_factory):
    """What PyTorch's features find by both backends."""
    file = tmp_path_factory.mktemp("both") / "found.json"
    torchrun(lab, HERE / "torch_toys.py", file, "fanfold", "gloo")
    return json.loads(file.read_text())


def check_toys(ours, gloo):
    assert ours.pop("orders") == 4 * (0 + 1 + 2 + 3)
    assert ours.pop("coalesced") == [[6], [[4, 6]]]
    floats = {name: pytest.approx(gloo[name], abs=BOUND) for name in FLOATS}
    assert ours == gloo | floats
    assert set(ours) >= {
        "integers",
        "dtensor",
        "mesh",
        "objects",
        "checkpoints",
        "functional",
        "compiled",
        "states",
    }


def test_features_of_pytorch_find_what_they_find_by_gloo(found):
    check_toys(found["fanfold"], found["gloo"])


def test_at_one_host_they_find_the_same_and_no_array_leaves_it(nursery, nodes, found, tmp_path):
    def arrays():
        return [nodes.status(name)["arrays"] for name in ("leaf1", "leaf2", "spine1", "h1")]

    before = arrays()
    check_toys(toys(nursery, tmp_path, FANFOLD_HOST="h1"), found["gloo"])
    assert arrays() == before


def test_with_two_ranks_at_each_of_two_hosts_they_find_the_same(nursery, found, tmp_path):
    ours = toys(nursery, tmp_path, FANFOLD_HOSTS="h1,h1,h3,h3")
    check_toys(ours, found["gloo"])


def test_a_transformer_learns_as_by_gloo_and_twice_the_same(lab, tmp_path):
    file = tmp_path / "runs.json"
    backends = "fanfold,fanfold,gloo"
    said = torchrun(lab, EXAMPLE, "--backends", backends, "--steps", 12, "--json", file)
    (_, first, bits), (_, second, same_bits), (_, gloo, _) = json.loads(file.read_text())
    assert (first, bits) == (second, same_bits)
    assert first == pytest.approx(gloo, abs=1e-4)
    assert first[-1] < first[0] - 1.5
    assert "losses differ by" in said


def test_over_planes_sums_have_the_bits_of_one_plane_also_while_one_is_cut(
    nursery, pod, tmp_path
):
    file, more = tmp_path / "begun", {"FANFOLD_LAB": pod.name, "FANFOLD_PLANES": "auto"}
    ranks = begin(nursery, N, "torch_planes.py", file, **more)
    wait_for(file.exists, "sums over all planes")
    pod.site.run("lab", "fail", "link", "h2-leaf0", "--name", pod.name)
    time.sleep(CUT_S)
    pod.site.run("lab", "heal", "--name", pod.name)
    for told, warned in told_by(ranks):
        assert len(told["digests"]) == 1
        assert told["used"] == [3, 2, 3]
        assert told["slowest"] < 4
        assert "plane 0 is silent and given up; plane 1, 2 carries on" in warned


@pytest.mark.parametrize("host", ["", "h1"])
def test_who_differs_sleeps_or_dies_is_named_on_every_rank(nursery, host):
    ends = told_by(begin(nursery, N, "torch_faults.py", FANFOLD_HOST=host))
    for rank, (told, _) in enumerate(ends):
        assert "all_reduce" in told["sizes"][0]
        assert "rank 1" in told["sizes"][0]
        assert told["sizes"][0].endswith("; operation 1 of the group")
        assert "broadcast" in told["dtypes"][0]
        assert "rank 2: broadcast of 16 bytes of int32" in told["dtypes"][0]
        if rank != 2:
            words, seconds = told["leaves"]
            assert "barrier" in words
            assert "rank 2" in words
            assert seconds < 9
        if rank != 1:
            words, seconds = told["sleep"]
            assert "barrier" in words
            assert "rank 1" in words
            assert 1.5 < seconds < 9
            assert words.endswith("; Timed out after 2 s; operation 2 of the group")
        if rank != N - 1:
            words, seconds = told["death"]
            assert "all_reduce" in words
            assert f"rank {N - 1}" in words
            assert ("has ended" if host else "leaf") in words  # or the branch
            assert seconds < (1.5 if host else 9)
            assert told["after"] == [N * (N - 1)] * 3


def test_training_that_is_restarted_learns_as_if_nothing_had_been(lab, tmp_path):
    """A rank is killed; the store of the first attempt, with all its keys, lives on."""
    torchrun(lab, HERE / "torch_restart.py", tmp_path, flags=("--max-restarts", "1"))
    found = json.loads((tmp_path / "losses.json").read_text())
    assert found["attempt"] == 1
    assert found["fanfold"] == pytest.approx(found["gloo"], abs=BOUND)


ROOT = "spine2"


@pytest.fixture(scope="module")
def ended(nodes, nursery):
    """What three ranks told and warned of, and the sums that each switch made meanwhile."""

    def sums():
        return {b: nodes.status(b)["arrays"].get("complete", 0) for b in ("spine1", ROOT)}

    before = sums()
    more = {"FANFOLD_ROOT": ROOT, "FANFOLD_HOSTS": "h1,h2,h4"}
    ends = told_by(begin(nursery, 3, "torch_ends.py", **more))
    return ends, {name: n - before[name] for name, n in sums().items()}


def test_the_environment_names_the_switch_that_sums(ended):
    ends, sums = ended
    assert [told["sum"] for told, _ in ends] == [3] * 3
    assert sums[ROOT] > 0
    assert sums["spine1"] == 0


def test_a_rank_opens_no_connection_to_the_store_for_a_further_group(ended):
    """The program's own, one of the default group and one of all others."""
    for told, _ in ended[0]:
        assert told["connections"] == [3] * 3


def test_a_first_operation_does_not_have_its_deadline_twice(ended):
    """The last rank comes when most of it is over, and begins nothing."""
    for told, _ in ended[0][:2]:
        words, seconds = told["first"]
        assert "all_reduce" in words
        assert words.endswith("; Timed out after 2 s; operation 1 of the group")
        assert 1.9 < seconds < 3.3  # 0.8 of it later it would be 3.6


def test_what_was_sent_before_a_normal_end_is_delivered_or_said(ended):
    ends, _ = ended
    assert ends[1][0]["box"] == [7, 8]
    assert "send to rank 2 was not delivered: no receive there took it" in ends[0][1]
    assert "send to rank 1" not in ends[0][1]


SUITE = (
    "test_all_gather_coalesced_simple",
    "test_all_to_all_single_unequal_split_complex",
    "test_barrier_timeout_full_group",
    "test_monitored_barrier_gloo",
    "test_send_recv_any_source",
    "test_send_recv_with_tag",
)


def test_what_pytorch_tests_of_gloo_holds_for_fanfold(nursery, tmp_path):
    """A part of ``make torch-suite``, which runs all of it at 4 and 8 ranks, gloo beside."""
    need_torch("expecttest")
    file, log = tmp_path / "found.json", tmp_path / "log"
    words = [HERE.parent / "torch_suite.py", "--inside", file, "--ranks", N, "--log", log]
    words += ["--backends", "fanfold", "--exactly", ",".join(SUITE)]
    (_, err), *_ = ends_of([nursery.start([*map(str, words)], {})])
    assert json.loads(file.read_text()) == dict.fromkeys(SUITE, "pass"), err
