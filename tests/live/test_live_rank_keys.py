"""Ranks whose arrays leave by sockets, on links with keys: right sums, and no forged results.

The actor is a local user that binds the address of a rank's BFR, and knows group and block.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest
from live_group import BLOCK, Group, Losses
from live_site import LiveLab, Site, wait_for

from fanfold.group.communicator import GroupError
from fanfold.kernels.codes import DROP_LINK_NO_KEY
from fanfold.live.rank import port_of_group
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.wire.bier import BierHeader
from fanfold.wire.fold import Fold, FoldWhat
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import build

pytestmark = pytest.mark.live

HOSTS = ["h0", "h1", "h2", "h3"]
BIFT_ID = 0x30000
N_BLOCKS = 512
SHAPE = ("--leaves", 2, "--spines", 1, "--hosts", 3, "--no-rings")
FORGED = 7777


class Lab(LiveLab):
    """A lab whose ranks have no memory in common with BFRs, and this process's folders its."""

    def __init__(self, site: Site, name: str, *flags: object) -> None:
        super().__init__(site, name, *SHAPE, *flags)
        self.fabric: Fabric = load_fabric(self.folder / "fabric.toml")


@pytest.fixture(scope="module")
def state(site: Site) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANFOLD_STATE_DIR", str(site.state))
        yield


@pytest.fixture(scope="module")
def keyed(site: Site, state: None) -> Iterator[Lab]:
    made = Lab(site, "rank-keys", "--link-keys")
    yield made
    made.down()


@pytest.fixture(scope="module")
def opened(site: Site, state: None) -> Iterator[Lab]:
    made = Lab(site, "rank-open")
    yield made
    made.down()


@contextmanager
def group_of(lab: Lab, **more: object) -> Iterator[Group]:
    group = Group(lab.fabric, HOSTS, **more)
    try:
        yield group
    finally:
        group.close()


def sum_up(group: Group, n: int = N_BLOCKS * BLOCK) -> list[np.ndarray]:
    arrays = [np.full(n, rank + 1, np.int32) for rank in range(len(HOSTS))]
    group.each(lambda c: c.all_reduce(arrays[c.rank]))
    return arrays


def is_right(arrays: list[np.ndarray]) -> bool:
    return all(int(a.min()) == int(a.max()) == 10 for a in arrays)


def no_keys(group: Group) -> int:
    """Packets without a trailer that ranks refused."""
    return sum(int(rank.end.drops[DROP_LINK_NO_KEY]) for rank in group.ranks)


def test_sums_over_sockets_are_right_and_every_rank_has_sessions_of_its_own(
    keyed: Lab,
) -> None:
    before = keyed.status("leaf1")["link_keys"]["sessions"]
    with group_of(keyed) as group:
        assert is_right(sum_up(group))
        assert is_right(sum_up(group, 3))
        assert no_keys(group) == 0
        told = keyed.status("leaf1")
        assert told["link_keys"]["sessions"] > before
        # a handshake that was sent twice may leave one packet under the first answer
        assert told["drops"].get("link_no_key", 0) <= len(HOSTS)


def test_ranks_have_the_root_at_their_own_hosts_node(keyed: Lab) -> None:
    with group_of(keyed, root="h0") as group:
        assert is_right(sum_up(group))
        assert group.ranks[0].end.root() == "h0"
        assert no_keys(group) == 0
    assert "link_no_key" not in keyed.status("h0")["drops"]


def test_losses_and_new_keys_in_the_midst_of_sums_cost_repairs_only(keyed: Lab) -> None:
    losses = Losses(keyed, keyed.fabric)
    with group_of(keyed) as group:
        losses.begin(group, 5, drop_ppb=5_000_000)
        for _ in range(3):
            assert is_right(sum_up(group))
            keyed.site.run("keys", "rekey", "--lab", keyed.name)
            for rank in group.ranks:
                rank.end.links.driver.rekey()
        losses.begin(group, 5)
        assert is_right(sum_up(group))
        assert group.count("sent_again") > 0


def test_a_bfr_that_starts_again_has_keys_with_ranks(keyed: Lab) -> None:
    with group_of(keyed) as group:
        assert is_right(sum_up(group))
        keyed.restart("leaf1")
        assert is_right(sum_up(group))


class Forger:
    """Sends results for all blocks that a rank may wait for, in the name of its BFR."""

    def __init__(self, lab: Lab, group: Group) -> None:
        self.lab, self.end = lab, group.ranks[1].end
        self.number = int(self.end.state.row[0]["group"])
        self.is_over = False
        self.thread = threading.Thread(target=self.run)

    def __enter__(self) -> "Forger":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        self.thread.join()

    def run(self) -> None:
        h1 = self.lab.fabric.by_name["h1"]
        leaf = self.lab.fabric.by_name[self.end.uplink()]
        to = (h1.address, port_of_group(self.number))
        words = np.full(BLOCK, FORGED, np.int32).tobytes()
        header = BierHeader(BIFT_ID, 64, h1.bfr_id, 1 << (h1.bfr_id - 1))
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
            sock.bind((leaf.address, 0))
            while not self.is_over:
                job, base = self.end.state.job[0], int(self.end.state.row[0]["base"])
                block = base + max(int(job["next"]) - 1, 0)
                fold = Fold(Kind.SPREAD, FoldWhat.ARRAY, self.number, block, n_merged=4)
                addr = address_of(leaf.address)
                packet = build(header, addr, GROUP_ADDRESS, to[1], fold, words)
                sock.sendto(packet, to)


def test_a_local_user_gives_ranks_no_false_result(keyed: Lab, opened: Lab) -> None:
    with group_of(opened) as group, Forger(opened, group):
        wait_for(lambda: not sums_well(group), "a false sum where links are open")
    with group_of(keyed) as group, Forger(keyed, group):
        for _ in range(5):
            assert is_right(sum_up(group))
        wait_for(lambda: no_keys(group) > 0, "counted")


def sums_well(group: Group) -> bool:
    try:
        return is_right(sum_up(group))
    except GroupError:
        return False
