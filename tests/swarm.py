"""Pushes in a fabric of real kernels and machines, in virtual time, with accidents by a seed.

Senders, receivers with their disks, BFRs with slots and caches, tables that nodes swap when a
link fails: the code of live nodes, without sockets. Each seed draws a leaf-spine fabric,
losses, links that are cut, BFRs and receivers that end and start again, and a sender that dies,
stands still or is taken over from, with the same bytes or newer ones; packets that come twice,
late or damaged, disks that are slow or full, tables that change on a net that is well
(tests/swarm_draw.py). Laws that are looked at all the time raise ``LawError``. tests/hunt.py
goes through seeds.
"""

import heapq
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kernel_nodes import KernelFabric, KernelNode, write_all
from swarm_draw import MS, draw_of
from swarm_ends import BLOCK, NAME, Sink, Source

from fanfold.core.effects import SendBlock
from fanfold.core.flight import members_of
from fanfold.errors import WireError
from fanfold.kernels.slots import let_go
from fanfold.live.swap import Swap
from fanfold.push.peer import State, rival_of
from fanfold.streams import stream
from fanfold.topo.fabric import Fabric
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.units import PS_PER_SECOND
from fanfold.wire import bitstring as bs
from fanfold.wire.feedback import NOT_TOLD, Feedback
from fanfold.wire.packet import Packet, parse
from fanfold.wire.report import ReportError, ReportState

FOLD_PS, HOP_PS, TICK_PS = 60 * MS, MS // 5, 10 * MS
NOTICED_PS, PACKET_PS = 150 * MS, MS
DEPTH = 4
"""Of a leaf-spine fabric, hosts included."""
MOST_PS = 60 * PS_PER_SECOND
"""A push that has not ended by then, all healed long before, has made no progress."""
HEAL_BY_PS = 4 * PS_PER_SECOND
LATE_PS = 20 * MS
"""Longest that a packet is held back: others overtake it."""
SOCKET_PKTS = 64
"""Of packets that wait at a receiver whose disk is busy; the rest is dropped."""
FULL_TEXT = ReportError.DISK_FULL.name.lower()
DAMAGED = "damaged"
"""First on the path of a packet that is no longer its sender's: it may go anywhere."""
MEMORY = "/dev/shm"
LAST = 12
"""Epoch of one more push, where a disk was full."""


class LawError(AssertionError):
    """A law does not hold."""


class Node:
    """One node: kernels, tables that are swapped, and how it is just now."""

    def __init__(self, fabric: Fabric, name: str, kernels: KernelNode) -> None:
        self.kernels = kernels
        kernels.row["fold_ps"], kernels.row["depth"] = FOLD_PS, DEPTH
        self.swap = Swap(fabric, name, kernels.bifts)
        self.is_up = True

    def forget(self) -> None:
        """It was started anew: soft state is gone."""
        self.kernels.fold.rows["armed"] = 0
        self.kernels.fold.ready[0] = 0
        self.kernels.row["next_ps"] = 2**62


class World:
    """One seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw, self.folder = draw_of(seed), folder
        self.rng = stream(seed, "swarm/net")
        d = self.draw
        self.fabric = leaf_spine(d.leaves, d.spines, d.hosts)
        self.bsl = bs.bsl_of_bits(self.fabric.bitstring_bits)
        self.now = 0
        self.loss, self.is_calm = d.loss, False
        made = KernelFabric(self.fabric, d.store_bytes)
        self.nodes = {n: Node(self.fabric, n, k) for n, k in made.nodes.items()}
        for name in self.nodes:
            (folder / name).mkdir()
        hosts = [f"h{i}" for i in range(2, d.hosts + 1)]
        self.ids = [self.fabric.by_name[h].bfr_id for h in hosts]
        self.sinks = {h: Sink(self, h) for h in hosts}
        self.taken_ps: dict[int, int] = {}  # when the newest push had the name, by BFR-id
        self.done_ps: dict[tuple[int, int], int] = {}  # (BFR-id, flow): all is there
        self.is_rerouted, self.n_bad = False, 0
        self.ended_ps = 0  # when the first sender had its accident
        self.busy_ps: dict[str, int] = {}  # until when the port of a host, or a BFR, sends
        self.down: set[frozenset[str]] = set()
        self.left_out: set[frozenset[str]] = set()  # of tables, though they are well
        self.n_waiting = dict.fromkeys(self.sinks, 0)  # packets, while a disk writes
        self.has: dict[tuple[int, int], set[int]] = {}  # (BFR-id, flow): blocks ever verified
        self.had: dict[tuple[int, int], set[int]] = {}  # when it said first what it has
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._n = 0
        data = stream(seed, "swarm/data")
        self.contents = [data.bytes(d.n_blocks * BLOCK - 7) for _ in range(2)]
        self.sources = [Source(self, "h0", self.contents[0], 10, takes_over=False)]
        self._accidents()

    # Time.

    def at(self, when_ps: int, what: Callable[[], None]) -> None:
        self._n += 1
        heapq.heappush(self._events, (when_ps, self._n, what))

    def run(self) -> None:
        """Until every push has ended and all accidents are over."""
        self.at(0, self._tick)
        while self._events:
            self.now, _, what = heapq.heappop(self._events)
            if self.now > MOST_PS:
                raise LawError(f"no end: {self._where()}")
            what()
        self._judge_end()

    def _is_over(self) -> bool:
        ended = all(s.machine.is_done() for s in self.sources if s.state != "dead")
        is_quiet = not any(s.state == "still" for s in self.sources)
        is_second_due = bool(self.ended_ps) and len(self.sources) == 1
        if not ended or is_second_due or not is_quiet or self.now <= HEAL_BY_PS:
            return False
        newest = self.sources[-1]
        if newest.epoch < LAST and self._failed_full(newest):  # there is room now: once more
            self.sources.append(Source(self, "h1", newest.content, LAST, takes_over=False))
            return False
        return True

    def _failed_full(self, source: Source) -> set[int]:
        """BFR-ids of those whose disk was full in a push."""
        host = self.fabric.by_name.get(self.draw.more.full)
        peers = source.machine.peers.items()
        failed = {b + 1 for b, p in peers if p.error.startswith(FULL_TEXT)}
        if failed - ({host.bfr_id} if host else set()):
            raise LawError(f"BFR-ids {failed} say that their disk is full")
        return failed

    def _is_middle(self) -> bool:
        """The first sender has come so far that its accident is due."""
        first, d = self.sources[0], self.draw
        if self.ended_ps or d.ending == "well" or first.machine.data_fan is None:
            return False
        most = max((len(b) for (_, f), b in self.has.items() if f == first.flow), default=0)
        return most >= d.share * d.n_blocks

    def _tick(self) -> None:
        if self._is_middle():
            self.ended_ps = self.now
            self._end_first()
        if self._is_over():
            self._events = []
            return
        self._expire()
        for name, sink in self.sinks.items():
            if self.nodes[name].is_up and sink.disk.busy_ps <= self.now:
                sink.step()
        for source in self.sources:
            if source.state == "runs":
                source.step([])
        self.at(self.now + TICK_PS, self._tick)

    def _expire(self) -> None:
        for name, node in self.nodes.items():
            if node.is_up and int(node.kernels.row[0]["next_ps"]) <= self.now:
                node.kernels.row["next_ps"] = node.kernels.expire(self.now)
                self._ready(name)

    # Packets.

    def transmit(self, name: str, port: int, packet: bytes, path: tuple[str, ...]) -> None:
        peer = self.fabric.port_nodes(name)[port].name
        if frozenset((name, peer)) in self.down or self.rng.random() < self.loss:
            return
        came = self.fabric.port_to(peer, name)
        left = self.busy_ps[name] = max(self.busy_ps.get(name, 0), self.now) + PACKET_PS
        when = left + HOP_PS + int(self.rng.integers(HOP_PS))
        more = self.draw.more
        if self.is_calm:
            self.at(when, lambda: self.arrive(peer, came, packet, path))
            return
        twice, late, damaged = self.rng.random(3) < (more.twice, more.late, more.damaged)
        if twice:
            again_ps = when + int(self.rng.integers(LATE_PS))
            self.at(again_ps, lambda: self.arrive(peer, came, packet, path))
        when += int(self.rng.integers(LATE_PS)) * bool(late)
        if damaged:
            bad, path = damage(packet, self.rng), (DAMAGED, *path)
            self.at(when, lambda: self.arrive(peer, came, bad, path))
        else:
            self.at(when, lambda: self.arrive(peer, came, packet, path))

    def _waits(self, name: str, call: Callable[[], None]) -> bool:
        """Whether a packet waits at a receiver's socket while its disk writes, or is lost."""
        sink = self.sinks.get(name)
        if sink is None or sink.disk.busy_ps <= self.now:
            return False
        if self.n_waiting[name] < SOCKET_PKTS:
            self.n_waiting[name] += 1

            def then() -> None:
                self.n_waiting[name] -= 1
                call()

            self.at(sink.disk.busy_ps, then)
        return True

    def arrive(self, name: str, port: int, packet: bytes, path: tuple[str, ...]) -> None:
        node = self.nodes[name]
        if not node.is_up or self._waits(name, lambda: self.arrive(name, port, packet, path)):
            return
        if name in path and DAMAGED not in path:
            raise LawError(f"a packet is at {name} for the second time: {path}")
        copies = node.kernels.forward([packet], port, self.now)
        mine = copies.pop(0, [])
        for out_port, each in copies.items():
            for copy in each:
                self.transmit(name, out_port, copy.packet, (*path, name))
        self._ready(name)
        if mine and name in self.sinks:
            self.sinks[name].take(port, packet)
        for source in self.sources if mine else ():
            if source.host == name and source.state == "runs":
                source.hear(mine[0].packet)

    def read(self, packet: bytes) -> Packet | None:
        """What an end makes of a packet; None where it is refused, as a driver does."""
        try:
            return parse(packet)
        except WireError:
            self.n_bad += 1
            return None

    def _ready(self, name: str) -> None:
        """Words of slots that are ready, each slot freed once; repairs of caches."""
        node = self.nodes[name].kernels
        mended, node.mended = node.mended, []
        for mend in mended:
            for port, packet in mend.copies.items():
                self.transmit(name, port, packet, (name,))
        n = int(node.fold.ready[0])
        slots = node.fold.ready[1 : 1 + n].tolist()
        node.fold.ready[0] = 0
        for slot in slots:
            row = node.fold.rows[slot]
            if row["armed"] == 0:
                raise LawError(f"slot {slot} of {name} is freed twice")
            for packet in write_all(node, slot):
                self.transmit(name, int(row["port"]), packet, (name,))
            let_go(row)

    # Accidents.

    def _accidents(self) -> None:
        d = self.draw
        if d.cut is not None:
            link = frozenset(d.cut)
            self.at(d.cut_ps, lambda: self._cut(link))
            if d.is_healed:
                self.at(d.cut_ps + 1500 * MS, lambda: self._heal(link))
        if d.killed:
            self.at(d.kill_ps, lambda: self._kill(d.killed))
            self.at(d.kill_ps + d.back_ps, lambda: self._start(d.killed))
        if d.more.without is not None and d.cut is None and not d.killed:
            left_out = frozenset(d.more.without)
            self.at(d.cut_ps, lambda: self._leave_out({left_out}))
            self.at(d.cut_ps + d.more.out_ps, lambda: self._leave_out(set()))
        self.at(HEAL_BY_PS, self._calm)

    def _cut(self, link: frozenset[str]) -> None:
        self.down.add(link)
        self._tell(NOTICED_PS)

    def _heal(self, link: frozenset[str]) -> None:
        self.down.discard(link)
        self._tell(MS)

    def _leave_out(self, links: set[frozenset[str]]) -> None:
        """New tables everywhere, on a net that is well."""
        self.left_out = links
        self._tell(MS)

    def _tell(self, after_ps: int) -> None:
        """Each node has tables without what is down, ends of it first, others soon after."""
        near = {name for link in self.down for name in link}
        for name, node in self.nodes.items():
            later = 0 if name in near else int(self.rng.integers(1, 120)) * MS
            self.at(
                self.now + after_ps + later,
                lambda node=node: self._swap(node),
            )

    def _swap(self, node: Node) -> None:
        """What is down just now: what nodes tell has a number, and no older one counts."""
        index = {one.name: i for i, one in enumerate(self.fabric.nodes)}
        gone = self.down | self.left_out
        failed = frozenset(tuple(sorted(index[n] for n in link)) for link in gone)
        node.swap.without(failed)
        is_on = any(not s.machine.is_done() for s in self.sources if s.state == "runs")
        self.is_rerouted |= is_on and bool(failed)

    def _kill(self, name: str) -> None:
        self.nodes[name].is_up = False
        if name in self.sinks:
            self.sinks[name].end()
        else:
            for nbr in self.fabric.neighbours[name]:
                self.down.add(frozenset((name, nbr)))
            self._tell(NOTICED_PS)

    def _start(self, name: str) -> None:
        node = self.nodes[name]
        node.is_up = True
        node.forget()
        if name in self.sinks:
            self.sinks[name].start()
        else:
            self.down = {link for link in self.down if name not in link}
            self._tell(MS)

    def _calm(self) -> None:
        self.loss, self.is_calm = 0.0, True

    def _end_first(self) -> None:
        first, d = self.sources[0], self.draw
        content = self.contents[1 if d.newer else 0]
        is_alive = d.ending == "is taken over from"
        if not is_alive:
            first.state = "dead" if d.ending == "dies" else "still"
        self.at(
            self.now + (0 if is_alive else 500 * MS),
            lambda: self.sources.append(Source(self, "h1", content, 11, is_alive)),
        )
        if first.state == "still":
            self.at(self.now + 3000 * MS, self._go_on)

    def _go_on(self) -> None:
        self.sources[0].state = "runs"

    # Laws.

    def note(self, sink: Sink) -> None:
        """What a receiver has verified until now."""
        if sink.machine.outside.epochs.newest(NAME).epoch > self.sources[0].epoch:
            self.taken_ps.setdefault(sink.me.bfr_id, self.now)
        for session in sink.machine.sessions.values():
            incoming = session.incoming
            if session.state in (ReportState.FINISHING, ReportState.DONE):
                self.done_ps.setdefault((sink.me.bfr_id, session.flow), self.now)
            if incoming is None:
                continue
            key = sink.me.bfr_id, session.flow
            blocks = {i for i in range(incoming.layout.n_chunks) if incoming.has(i)}
            self.has.setdefault(key, set()).update(blocks)
            if session.state == ReportState.READY and key not in self.had:
                self.had[key] = blocks

    def judge_word(self, source: Source, said: Feedback) -> None:
        """A word at the source says of nobody what is not so."""
        if not said.flow & 1:
            return
        for k in members_of(said.heard):
            has = self.has.get((k + 1, source.flow), set())
            if said.done >> k & 1 and said.block not in has:
                raise LawError(f"BFR-id {k + 1} has not block {said.block}, a word says it")
            floor = said.block - said.behind if said.behind < NOT_TOLD else 0
            if not has.issuperset(range(floor)):
                raise LawError(f"BFR-id {k + 1} lacks blocks below the floor {floor}: {has}")

    def judge_first(self, source: Source, job: SendBlock) -> None:
        """Nobody is sent what it had verified before this push."""
        bits = job.bits[0]
        for k in members_of(bits):
            if job.block in self.had.get((k + 1, source.flow), ()):
                raise LawError(f"block {job.block} is sent to BFR-id {k + 1} a second time")

    def _judge_end(self) -> None:
        """Whole files of the newest push everywhere, and each sender knows how it ended."""
        newest = self.sources[-1]
        for host, sink in self.sinks.items():
            path = sink.root / NAME
            got = path.read_bytes() if path.exists() else b""
            state = newest.machine.peers[sink.me.bfr_id - 1].state
            if state != State.VERIFIED:
                raise LawError(f"{host} ends {state} in the newest push: {self._where()}")
            if got != newest.content:
                raise LawError(f"{host} has other bytes than the newest push")
        if len(self.sources) > 1 and self.sources[0].state == "runs":
            self._judge_first_sender(self.sources[0])

    def _judge_first_sender(self, first: Source) -> None:
        """It is told who took over, of each receiver that it did not end before."""
        full = self._failed_full(first)
        peers = {b: p for b, p in first.machine.peers.items() if b + 1 not in full}
        for bit, peer in peers.items():
            is_told = peer.lost_to is not None and peer.lost_to.epoch == 11
            if peer.state != State.VERIFIED and not is_told:
                raise LawError(f"BFR-id {bit + 1} told the first sender: {peer.error}")
            taken_ps = self.taken_ps.get(bit + 1, MOST_PS)
            done_ps = self.done_ps.get((bit + 1, first.flow), 2 * MOST_PS)
            if peer.state == State.VERIFIED and done_ps > taken_ps:
                raise LawError(f"BFR-id {bit + 1} is verified by the one that lost its name")
        is_all = all(p.state == State.VERIFIED for p in peers.values())
        if not is_all and rival_of(first.machine.peers.values()) is None:
            raise LawError("nobody took over, and some have nothing")

    def _where(self) -> str:
        ends = [
            {b + 1: f"{p.state} {p.error}".strip() for b, p in s.machine.peers.items()}
            for s in self.sources
        ]
        return f"{self.draw} {ends}"

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.machine.close_all()


def damage(packet: bytes, rng: np.random.Generator) -> bytes:
    """One bit of it, anywhere, is turned."""
    bits = bytearray(packet)
    bits[int(rng.integers(len(bits)))] ^= 1 << int(rng.integers(8))
    return bytes(bits)


class Seen(NamedTuple):
    """What a seed had in it, for whoever counts them."""

    is_middle: bool
    """The second sender found blocks that were verified, and others that were not."""
    is_told: bool
    """The first one was told who took over."""
    is_rerouted: bool
    """A node swapped its tables while a push went on."""
    n_repairs: int
    is_full: bool
    """A receiver's disk was full, and one more push brought it what lacked."""
    n_bad: int
    """Packets that ends refused for what they were."""


def seen_of(world: World) -> Seen:
    """After the end of a seed."""
    first, last = world.sources[0], world.sources[-1]
    n = world.draw.n_blocks
    kept = [len(world.had.get((i, last.flow), ())) for i in world.ids]
    is_second = len(world.sources) > 1
    return Seen(
        is_second and any(0 < k < n for k in kept),
        rival_of(first.machine.peers.values()) is not None,
        world.is_rerouted,
        sum(fan.n_repairs for source in world.sources for fan in source.machine.fans()),
        last.epoch == LAST,
        world.n_bad,
    )


def run_seed(seed: int) -> Seen:
    """One seed; raises ``LawError`` with the command that shows it again."""
    memory = MEMORY if Path(MEMORY).is_dir() else None  # thousands of small files
    with tempfile.TemporaryDirectory(prefix="fanfold-swarm-", dir=memory) as folder:
        world = World(seed, Path(folder))
        try:
            world.run()
        except LawError as wrong:
            again = f"python tests/hunt.py --seeds 1 --seed {seed}"
            raise LawError(f"seed {seed}: {wrong}\n{world.draw}\n{again}") from wrong
        finally:
            world.close()
        return seen_of(world)
