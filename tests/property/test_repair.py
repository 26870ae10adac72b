"""Laws of repair by the nearest holder, in a fabric of kernels that loses packets at random.

Hosts and source are plain Python here: a host says what it lacks when it is asked, the source
sends again what words name, and asks when nothing else is to do.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_nodes import FOLD_PS, KernelFabric, three_levels
from test_kernel_fabric import impose_block, report

from fanfold.kernels.jit import JIT
from fanfold.kernels.state import SEG_BYTES
from fanfold.streams import stream
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback
from fanfold.wire.packet import parse

N_PSN, N_BLOCKS, N_HOSTS = 16, 3, 12
ALL = 2**N_HOSTS - 1
MOST_TURNS = 2000


def is_repair(packet):
    message = parse(packet).message
    return isinstance(message, Data) and message.flags & 4 != 0


class LossyFabric(KernelFabric):
    """Links of hosts, or all, lose packets by chance; REPAIR is counted by link."""

    def __init__(self, store_bytes, seed, share, *, everywhere):
        super().__init__(three_levels(), store_bytes)
        self.rng = stream(seed, "tests/repair")
        self.share, self.everywhere = share, everywhere
        self.repairs = {}

    def arriving(self, name, peer, packets):
        for packet in packets:
            if is_repair(packet):
                self.repairs[name, peer] = self.repairs.get((name, peer), 0) + 1
        if not self.everywhere and name[0] != "h" and peer[0] != "h":
            return packets
        return [p for p in packets if self.rng.random() >= self.share]


class Fan:
    """One fan to all hosts until each has all of it, exactly once."""

    def __init__(self, world):
        self.world, self.now = world, 0
        self.have = {f"h{i}": {} for i in range(1, N_HOSTS + 1)}
        self.need = dict.fromkeys(range(N_BLOCKS), ALL)
        self.from_source = 0

    def run(self):
        for block in range(N_BLOCKS):
            self.send(block, [ALL] * N_PSN)
        n_idle = 0
        for _ in range(MOST_TURNS):
            if not any(self.need.values()):
                return
            self.now += FOLD_PS // 2
            self.world.expire(self.now)
            n_idle = 0 if self.hear() else n_idle + 1
            if n_idle == 15:  # longer than any slot waits
                n_idle = 0
                self.ask()
        raise AssertionError(f"not done: {self.need}")

    def send(self, block, sets, flags=1):
        packets = impose_block(self.world.fabric, block, sets, flags=flags)
        self.world.send("h0", packets, self.now)
        while self.hear():
            continue

    def hear(self):
        """Take in what was delivered; words bring repairs. False where nothing was."""
        came, self.world.delivered = self.world.delivered, []
        wanted = {}
        for name, packet in came:
            message = parse(packet).message
            if isinstance(message, Data):
                self.take(name, message)
            elif isinstance(message, Feedback):
                self.need[message.block] &= ~message.done
                for row in message.rows:
                    rows = wanted.setdefault(message.block, [0] * N_PSN)
                    rows[row.psn] |= row.lacking
        for block, rows in wanted.items():
            left = [bits & self.need[block] for bits in rows]
            if any(left):
                self.from_source += sum(map(bool, left))
                packets = impose_block(self.world.fabric, block, left, flags=5)
                self.world.send("h0", packets, self.now)
        return bool(came)

    def take(self, name, data):
        """A host says what it lacks where it is asked, and that it lacks nothing."""
        seen = self.have[name].setdefault(data.block, set())
        seen.add(data.psn)
        if data.flags & 1 or len(seen) == N_PSN:
            lacks = set(range(N_PSN)) - seen
            packet = report(self.world.fabric, name, data.block, N_PSN, lacks)
            self.world.up(name, [packet], self.now)

    def ask(self):
        for block, need in self.need.items():
            if need:
                self.send(block, [0] * (N_PSN - 1) + [need], flags=5)


@settings(max_examples=30 if JIT else 4, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.01, 0.05, 0.1]),
    st.sampled_from([0, SEG_BYTES, 1 << 20]),
    st.booleans(),
)
def test_everybody_gets_all_of_it_whatever_is_lost_and_however_little_is_kept(
    seed, share, store_bytes, everywhere
):
    world = LossyFabric(store_bytes, seed, share, everywhere=everywhere)
    fan = Fan(world)
    fan.run()
    whole = {block: set(range(N_PSN)) for block in range(N_BLOCKS)}
    assert all(have == whole for have in fan.have.values())
    for node in world.nodes.values():
        store = node.fold.store
        assert store.held[0] <= store.most[0] * store.segs.shape[0]
        assert not store.n_todo[0]
        assert not any(reason in node.drops() for reason in ("bad_checksum", "wrong_port"))


def test_with_caches_the_source_repairs_what_was_lost_above_them():
    n = {}
    for store_bytes in (0, 1 << 20):
        n[store_bytes] = 0
        for seed in range(10 if JIT else 2):
            fan = Fan(LossyFabric(store_bytes, seed, 0.02, everywhere=False))
            fan.run()
            n[store_bytes] += fan.from_source
    assert n[1 << 20] * 3 < n[0]


def test_a_branch_that_lost_nothing_gets_no_repair():
    class OneLossy(LossyFabric):
        def arriving(self, name, peer, packets):
            came = super().arriving(name, peer, packets)
            if (name, peer) != ("leaf1", "h4"):
                return came
            return [p for p in came if parse(p).message.psn % 8 != 3 or is_repair(p)]

    world = OneLossy(1 << 20, 5, 0.0, everywhere=False)
    fan = Fan(world)
    fan.run()
    assert world.repairs == {("leaf1", "h4"): 2 * N_BLOCKS}
    assert fan.from_source == 0
    assert world.n_on_link["leaf0", "h0"] == N_BLOCKS  # one word for each block
