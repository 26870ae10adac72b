"""How ranks of a group find fabric, hosts and each other, through a store."""

import subprocess
import sys
import time
from datetime import timedelta
from threading import Barrier, Event, Thread

import pytest
from torch_need import need_torch

need_torch()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch_world import Twin, run_ranks  # noqa: E402

import fanfold.torch  # noqa: E402
from fanfold.errors import ConfigError, EnvironmentLack  # noqa: E402
from fanfold.topo.fabric_file import save_fabric  # noqa: E402
from fanfold.topo.lab_fabric import lab_fabric, leaf_spine  # noqa: E402
from fanfold.topo.nets import build_named_net  # noqa: E402
from fanfold.torch import placement  # noqa: E402
from fanfold.torch.group import FanfoldGroup  # noqa: E402
from fanfold.torch.placement import FanfoldOptions, find_fabric, find_host  # noqa: E402

FABRIC = leaf_spine(2, 1, 4)


def meet(owns, seconds=20.0):
    """Words of each rank: of its failure, or the sum of a first all_reduce."""
    store, n = dist.HashStore(), len(owns)

    def action(rank):
        timeout = timedelta(seconds=seconds)
        group = FanfoldGroup(lambda: store, rank, range(n), timeout, "g", owns[rank], Twin.make)
        tensor = torch.tensor([rank + 1])
        try:
            group.allreduce([tensor]).wait()
        except RuntimeError as error:
            return str(error)
        finally:
            group.shutdown()
        return tensor.item()

    return run_ranks(n, action)


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    monkeypatch.setattr(placement, "environment", dict)
    monkeypatch.setattr("fanfold.torch.rendezvous.environment", dict)


def test_one_rank_that_was_told_tells_the_others():
    assert meet([FanfoldOptions(host="h2"), FanfoldOptions(FABRIC, "h1"), None]) == [6] * 3


IN_THREADS = """
import threading
import torch.distributed as dist
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.torch.rendezvous import Rendezvous
from fanfold.torch.placement import FanfoldOptions

owns = [FanfoldOptions(leaf_spine(2, 1, 4), "h1"), FanfoldOptions(host="h2")]
store, found, met = dist.HashStore(), set(), []

def look(frame, event, arg):
    if "msgspec" in frame.f_code.co_filename:
        found.add(frame.f_code.co_name)

def hold(rank):
    rendezvous = Rendezvous(lambda: store, rank, [0, 1], "g")
    met.append(rendezvous.hold(owns[rank], lambda *_: rank, 1))

threading.setprofile(look)
threads = [threading.Thread(target=hold, args=(rank,)) for rank in (0, 1)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(met), found)
"""


def test_no_thread_of_a_group_is_the_first_to_ask_msgspec_for_a_struct():
    """Two at once would crash: so none may, in a process that never read a fabric before."""
    said = subprocess.run(
        [sys.executable, "-c", IN_THREADS], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[0, 1] set()\n"


def test_without_a_word_of_a_fabric_all_are_told_how_to_name_one():
    for words in meet([None, None]):
        assert "FANFOLD_FABRIC" in words
        assert "FANFOLD_LAB" in words


def test_different_fabrics_are_refused_on_all_ranks():
    other = leaf_spine(2, 1, 4, prefix=1)
    for words in meet([FanfoldOptions(FABRIC), FanfoldOptions(other), FanfoldOptions(FABRIC)]):
        assert "ranks 0 and 1 were told of different fabrics" in words


def test_planes_that_differ_or_are_not_there_are_refused_on_all_ranks():
    pod = lab_fabric(build_named_net("superpod:gpus=4,planes=3")).fabric
    owns = [FanfoldOptions(pod, planes=text) for text in ("auto", "auto", "1,2")]
    for words in meet(owns):
        assert "ranks 0 and 2 were given different planes" in words
        assert "FANFOLD_PLANES='auto', FANFOLD_PLANES='1,2'" in words
    for words in meet([FanfoldOptions(pod, f"h{r}", planes="1,7") for r in range(3)]):
        assert "FANFOLD_PLANES: got '1,7', allowed: auto, or of the planes of h0" in words


def test_some_ranks_may_share_a_host():
    assert meet([FanfoldOptions(FABRIC, host) for host in ("h1", "h2", "h1")]) == [6] * 3


def test_all_ranks_may_be_at_one_host_and_need_no_root():
    assert meet([FanfoldOptions(FABRIC, "h1", root="spine1")] * 3) == [6] * 3


def test_ranks_of_a_machine_with_one_hosts_address_are_at_that_host(monkeypatch):
    address = FABRIC.by_name["h3"].address
    monkeypatch.setattr(placement, "_is_mine", lambda asked: asked == address)
    assert [find_host(FABRIC, None, {"LOCAL_RANK": str(r)}, r) for r in range(8)] == ["h3"] * 8


def test_what_fails_on_one_rank_is_told_on_all(tmp_path):
    owns = [FanfoldOptions(FABRIC, "h1"), FanfoldOptions(tmp_path / "none.toml")]
    for words in meet(owns):
        assert "none.toml" in words
    for words in meet([FanfoldOptions(FABRIC, "h1"), FanfoldOptions(FABRIC, "leaf1")]):
        assert "rank 1" in words
        assert "'leaf1'" in words


def test_another_number_is_drawn_where_a_port_is_taken(monkeypatch):
    """The first two numbers are taken on rank 1 alone; all ranks end with the third."""
    numbers = []

    def build(fabric, members, rank, number, timeout_ps):
        numbers.append((rank, number))
        if rank == 1 and sum(who == 1 for who, _ in numbers) < 3:
            raise EnvironmentLack("port: in use")
        return Twin.build(fabric, members, rank, number, timeout_ps)

    monkeypatch.setattr(Twin, "make", staticmethod(build))
    assert meet([FanfoldOptions(FABRIC)] * 2) == [3, 3]
    assert len({number for _, number in numbers}) == 3
    assert len(numbers) == 6


def test_ports_that_are_all_taken_are_told(monkeypatch):
    def build(fabric, members, rank, number, timeout_ps):
        raise EnvironmentLack("port: in use")

    monkeypatch.setattr(Twin, "make", staticmethod(build))
    for words in meet([FanfoldOptions(FABRIC)] * 2):
        assert "port: in use" in words


def test_a_rank_that_does_not_come_is_named_at_the_deadline():
    own = FanfoldOptions(FABRIC, "h1")
    store = dist.HashStore()
    group = FanfoldGroup(
        lambda: store, 0, range(3), timedelta(seconds=0.2), "g", own, Twin.build
    )
    with pytest.raises(RuntimeError, match=r"all_reduce.*did not form.*ranks 1, 2"):
        group.allreduce([torch.ones(1)]).wait(timedelta(seconds=20))
    group.shutdown()


class Mute:
    """A store that does not answer before it is told to, like that of a machine that hangs."""

    def __init__(self):
        self.answers = Event()

    def set(self, key, value):
        self.answers.wait(30)
        raise RuntimeError("connection reset")

    get = check = set


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_store_that_does_not_answer_holds_up_nobody_past_the_deadline(is_closed):
    store = Mute()
    own = FanfoldOptions(FABRIC, "h1")
    timeout = timedelta(seconds=300 if is_closed else 1)
    group = FanfoldGroup(lambda: store, 0, range(2), timeout, "g", own, Twin.build)
    start = time.monotonic()
    work = group.allreduce([torch.ones(1)])
    if is_closed:
        group.shutdown()
    words = "closed" if is_closed else "all_reduce: group 'g' did not form: its store does not"
    with pytest.raises(RuntimeError, match=words):
        work.wait(timedelta(seconds=20))
    if not is_closed:
        with pytest.raises(RuntimeError, match="its store does not answer"):
            group.barrier().wait(timedelta(seconds=20))
    group.shutdown()
    assert time.monotonic() - start < 8
    store.answers.set()


def test_a_rank_that_closes_before_it_met_gives_its_communicator_back():
    building, told, closed = Event(), Event(), []

    def build(*args):
        building.set()
        told.wait(20)
        made = Twin.build(*args)
        made.close = lambda: closed.append(True)
        return made

    own, store = FanfoldOptions(FABRIC, "h1"), dist.HashStore()
    one = FanfoldGroup(lambda: store, 0, range(2), timedelta(seconds=20), "g", own, build)
    own = FanfoldOptions(FABRIC, "h2")
    two = FanfoldGroup(lambda: store, 1, range(2), timedelta(seconds=20), "g", own, Twin.build)
    assert building.wait(20)
    ending = Thread(target=one.shutdown)
    ending.start()
    told.set()
    ending.join(20)
    two.shutdown()
    assert closed == [True]


def test_groups_made_in_different_orders_do_not_wait_for_each_other():
    """Each rank makes three groups of two in its own order, and only then uses them."""
    store, made = dist.HashStore(), Barrier(3)
    pairs = [(0, 1), (1, 2), (0, 2)]

    def action(rank):
        mine = [pair for pair in pairs[rank:] + pairs[:rank] if rank in pair]
        groups = {}
        for pair in mine:
            own = FanfoldOptions(FABRIC, f"h{rank + 1}")
            prefix = dist.PrefixStore(str(pair), store)
            groups[pair] = FanfoldGroup(
                lambda prefix=prefix: prefix,
                pair.index(rank),
                pair,
                timedelta(seconds=20),
                str(pair),
                own,
                Twin.build,
            )
        made.wait(20)
        tensors = {pair: torch.tensor([10**rank]) for pair in mine}
        works = [groups[pair].allreduce([tensors[pair]]) for pair in mine]
        for work in works:
            work.wait()
        for group in groups.values():
            group.shutdown()
        return {pair: tensor.item() for pair, tensor in tensors.items()}

    found = run_ranks(3, action)
    assert found[0] == {(0, 1): 11, (0, 2): 101}
    assert found[1] == {(0, 1): 11, (1, 2): 110}
    assert found[2] == {(1, 2): 110, (0, 2): 101}


def test_where_fabric_and_host_are_looked_for(tmp_path):
    file = tmp_path / "rack.toml"
    save_fabric(FABRIC, file)
    other = leaf_spine(1, 1, 2)
    env = {"FANFOLD_FABRIC": str(file), "FANFOLD_LAB": "nowhere"}
    assert find_fabric(None, env) == FABRIC
    assert find_fabric(FanfoldOptions(other), env) == other
    assert find_fabric(FanfoldOptions(file), {}) == FABRIC
    assert find_fabric(None, {}) is None
    assert find_host(FABRIC, FanfoldOptions(host="h3"), {"FANFOLD_HOST": "h2"}, 0) == "h3"
    assert find_host(FABRIC, None, {"FANFOLD_HOST": "h2", "FANFOLD_HOSTS": "h4"}, 0) == "h2"
    assert find_host(FABRIC, None, {"FANFOLD_HOSTS": "h[2-4]"}, 2) == "h4"
    shared = {"FANFOLD_HOSTS": "h1,h1,h[2-3],h2"}
    found = [find_host(FABRIC, None, shared, r) for r in range(5)]
    assert found == ["h1", "h1", "h2", "h3", "h2"]
    assert find_host(FABRIC, None, {"LOCAL_RANK": "1"}, 3) == "h2"
    assert find_host(FABRIC, None, {}, 3) == "h4"
    with pytest.raises(ConfigError, match="FANFOLD_HOSTS"):
        find_host(FABRIC, None, {"FANFOLD_HOSTS": "h1"}, 1)
    with pytest.raises(ConfigError, match="FANFOLD_HOST"):
        find_host(FABRIC, None, {}, 5)
    for text in ("x", "-1"):
        with pytest.raises(ConfigError, match=f"LOCAL_RANK: got '{text}', allowed: a whole"):
            find_host(FABRIC, None, {"LOCAL_RANK": text}, 0)


def test_options_of_another_backend_are_refused_at_once():
    words = "group: pg_options: got 'str', allowed: fanfold.torch.FanfoldOptions"
    with pytest.raises(dist.DistBackendError, match=words):
        fanfold.torch._create(None, "h1")


def test_addresses_of_other_machines_are_nobodys_here():
    nodes = tuple(
        type(node)(
            node.name,
            f"192.0.2.{i + 1}" if node.name == "h1" else node.address,
            node.role,
            node.bfr_id,
        )
        for i, node in enumerate(FABRIC.nodes)
    )
    fabric = type(FABRIC)(FABRIC.name, nodes, FABRIC.links)
    assert find_host(fabric, None, {}, 0) == "h2"


def test_the_backend_is_known_by_its_name_for_memory_only():
    fanfold.torch.register()
    assert dist.Backend("fanfold") == "fanfold"
    assert dist.Backend.backend_capability["fanfold"] == ["cpu"]
    assert dist.Backend.backend_list.count("fanfold") == 1


def test_fanfold_may_be_imported_before_pytorch():
    """PyTorch asks for its backends in the midst of its import, and so of fanfold's."""
    program = "import fanfold.torch, torch; print(torch.distributed.Backend('fanfold'))"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (said.stdout, said.stderr) == ("fanfold\n", "")


def test_the_store_of_a_group_is_named_by_its_ranks():
    """PyTorch counts groups: with another order of making them, another name on each rank."""
    base = dist.HashStore()
    base.set_timeout(timedelta(seconds=5))
    wrapped = [dist.PrefixStore("cpu/", dist.PrefixStore(f"{i}/", base)) for i in range(3)]
    fanfold.torch.own_store(wrapped[0], [0, 3])().set("first", "x")
    fanfold.torch._n_made.clear()  # another rank, which made one before
    fanfold.torch.own_store(wrapped[0], [3, 5])
    assert fanfold.torch.own_store(wrapped[1], [0, 3])().get("first") == b"x"
    assert not fanfold.torch.own_store(wrapped[2], [0, 3])().check(["first"])


def test_a_program_that_waits_in_its_store_holds_up_no_group():
    base = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    own = fanfold.torch.own_store(dist.PrefixStore("cpu/", dist.PrefixStore("1/", base)), [7])()
    waiting = Thread(target=base.wait, args=(["never"], timedelta(seconds=3)))
    waiting.start()
    time.sleep(0.2)
    start = time.monotonic()
    own.set("here", "x")
    assert own.check(["here"])
    assert time.monotonic() - start < 1
    own.underlying_store.set("never", "x")
    waiting.join()
