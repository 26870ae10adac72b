"""One BFR of the simulator, by itself: packets of a capture go in, what it sends comes out.

A journal is what a live node took in and gave out, in its own order: the records of its ports
in a capture. DATA goes to the simulator's kernels as rows and comes back as the bytes that came
in with the TTL and the BitString that the simulator says; FEEDBACK are bytes all along.

One input of a node is not in a capture: how full it found its own receive queue. It is taken
from the words that tell more than what the node had heard.
"""

from collections import defaultdict, deque
from typing import NamedTuple

import numpy as np
from fabric_run import fabric_ids, push_settings

from fanfold.kernels.layout import BITS_AT, UNDERLAY_BYTES
from fanfold.live.ports import Limits, build_node_state
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.fans import on_fan, on_slots, on_word
from fanfold.sim.loop.ports import free_pkt, take_pkt
from fanfold.sim.simulate import Simulation
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.routes import build_routes
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.feedback import Feedback
from fanfold.wire.link import is_link
from fanfold.wire.packet import Packet, parse
from fanfold.wire.pcapng import Direction

NEVER_PS = 2**63 - 1
TTL_AT = 3
N_BODIES, WORD_BYTES = 4096, 4096
"""Room for FEEDBACK with a row for each packet of a block."""


class Entry(NamedTuple):
    """A packet at one port of a node, with its BIER header first."""

    at_ps: int
    port: int
    is_out: bool
    packet: Packet
    octets: bytes


def journal_of(capture, fabric, name):
    """DATA and FEEDBACK at the ports of a node, in its own order; nobody else folds."""
    ports = {
        f"{name}:{neighbour}": port
        for port, neighbour in enumerate(fabric.neighbours[name], start=1)
    }
    faces = [ports.get(face.name) for face in capture.interfaces]
    entries = []
    for taken in capture.packets:
        port = faces[taken.interface]
        octets = taken.frame[UNDERLAY_BYTES:]
        if port is None or is_link(octets):
            continue
        packet = parse(octets)
        if isinstance(packet.message, Data | Feedback):
            is_out = taken.direction == Direction.OUTBOUND
            at_ps = (taken.at_ns - capture.packets[0].at_ns) * 1000
            entries.append(Entry(at_ps, port, is_out, packet, octets))
    return entries


def queues_of(entries):
    """What a node's words on each block tell of queues: (flow, block) -> one value each."""
    found = defaultdict(deque)
    for entry in entries:
        word = entry.packet.message
        if entry.is_out and isinstance(word, Feedback):
            found[word.flow, word.block].append(word.queue)
    return found


def sent_by(entries):
    """Bytes of what a node gave out: (port, kind) -> packets in order."""
    found = defaultdict(list)
    for entry in entries:
        if entry.is_out:
            found[entry.port, type(entry.packet.message).__name__].append(entry.octets)
    return dict(found)


class SimNode:
    """The simulator's node, with what a live node of that name is configured to.

    Args:
        program: the push, as fans of manifest and data. flow: of the manifest. sample: any DATA
        packet of the push, for what its headers say of the BFIR. queues: ``queues_of``.
    """

    def __init__(self, fabric, name, program, flow, sample, queues):
        self.fabric, self.queues = fabric, queues
        self.told = defaultdict(int)
        net = fabric_net(fabric)
        ids = fabric_ids(fabric, net)
        settings = push_settings(fabric)
        self.sim = Simulation(net, build_routes(net), program, settings, seed=1, bfr_ids=ids)
        self.node = [net.node_name(n) for n in range(net.n_nodes)].index(name)
        self.router = self.node - net.n_hosts
        self.first_out = int(net.first_out[self.node])
        self.reverse = net.reverse
        fans = self.sim.senders.fans
        self.flows = [flow + int(item) for item in fans["item"]]  # items: manifest, data
        fans["flow"] = self.flows
        fans["addr"], fans["flow_port"] = sample.inner.src, sample.inner.sport
        fans["bfir_id"] = sample.header.bfir_id
        self.n_expired = 0
        self.found = defaultdict(list)
        q, bier = self.sim.q, self.sim.fans.bier
        live = build_node_state(fabric, name, Limits()).row[0]
        for field in ("addr", "folds", "fold_ps", "depth", "mtu"):
            bier.bfrs[self.router][field] = live[field]
        q[r.FEEDBACK_MTU] = fabric.mtu
        bodies = np.zeros((N_BODIES, WORD_BYTES), np.uint8)
        self.bier = bier._replace(bodies=bodies)
        q[r.END] = NEVER_PS  # whatever is pushed stands in the side heap
        q[r.N_SIDE] = 0

    def take(self, entry):
        """One packet comes in."""
        self._pass_time(entry.at_ps)
        sim, q = self.sim, self.sim.q
        world, senders = sim.world, sim.senders
        p = take_pkt(q, world.pkts)
        pkt = world.pkts[p]
        message = entry.packet.message
        pkt["stream"], pkt["psn"], pkt["n"] = self.flows.index(message.flow), message.block, 1
        pkt["bytes"] = pkt["head"] = len(entry.octets) + UNDERLAY_BYTES
        pkt["link"] = self.reverse[self.first_out + entry.port - 1]
        pkt["span_ps"], pkt["marked"], pkt["trimmed"] = 0, 0, 0
        shared = (q, world.links, world.nodes, world.pkts)
        if isinstance(message, Data):
            self._fill_data(p, pkt, entry.packet.header, message)
            on_fan(*shared, senders.pkt_bits, senders.fans, self.bier, p, self.node)
        else:
            pkt["kind"], pkt["si"] = r.PK_FEEDBACK, len(entry.octets)
            q[r.N_BODIES] -= 1
            body = pkt["path"] = q[q[r.AT_BODIES] + q[r.N_BODIES]]
            self.bier.bodies[body, : len(entry.octets)] = np.frombuffer(entry.octets, np.uint8)
            self._look_at_queue(message)
            on_word(*shared, senders.pkt_bits, senders.fans, self.bier, p, self.node)
        self._drain(entry.octets)

    def _fill_data(self, p: int, pkt: np.void, header: BierHeader, message: Data) -> None:
        bits = self.sim.senders.pkt_bits[p]
        n_bytes = self.fabric.bitstring_bits // 8
        bits[:-1] = np.frombuffer(header.bitstring.to_bytes(n_bytes, "little"), np.uint64)
        bits[-1] = 1 << message.psn
        pkt["kind"], pkt["si"], pkt["ttl"] = r.PK_FAN, header.bift_id & 0xFF, header.ttl
        fan = self.sim.senders.fans[pkt["stream"]]
        pkt["path"] = fan["entropy"] % self.sim.q[r.N_ECMP]
        pkt["again"] = int(message.flags & DataFlag.REPAIR != 0)
        pkt["poll"], pkt["stamp"] = message.flags & DataFlag.POLL, message.round

    def _look_at_queue(self, word: Feedback) -> None:
        """Find the receive queue as full as the live node did when it spoke next."""
        key = word.flow, word.block
        self.told[key] = max(self.told[key], word.queue)
        found = self.queues[key][0] if self.queues[key] else 0
        row = self.bier.bfrs[self.router]
        row["queue"] = found if found > self.told[key] else 0

    def _pass_time(self, now_ps: int) -> None:
        sim, q = self.sim, self.sim.q
        nodes = sim.world.nodes
        while nodes[self.node]["slots_ps"] <= now_ps:
            q[r.NOW] = nodes[self.node]["slots_ps"]
            before = self._n_waiting()
            lists = q, sim.world.links, nodes, sim.world.pkts
            on_slots(*lists, sim.senders.pkt_bits, sim.senders.fans, self.bier, self.node)
            self.n_expired += before - self._n_waiting()
            self._drain(b"")
        q[r.NOW] = now_ps

    def _n_waiting(self) -> int:
        slots = self.bier.slots
        return int(((slots["armed"] != 0) & (slots["late"] == 0)).sum())

    def _drain(self, octets: bytes) -> None:
        """Collect what was sent; everything else that was pushed is a deadline of slots."""
        q, sim = self.sim.q, self.sim
        at = int(q[r.AT_SIDE])
        events = q[at : at + 3 * int(q[r.N_SIDE])].reshape(-1, 3)
        q[r.N_SIDE] = 0
        for _, _, what in sorted(events.tolist(), key=lambda event: event[1]):
            p, kind = divmod(what, r.N_KINDS)
            if kind != r.EV_ARRIVE:
                assert kind == r.EV_SLOTS
                continue
            pkt = sim.world.pkts[p]
            port = int(pkt["link"]) - self.first_out + 1
            size = int(pkt["bytes"]) - UNDERLAY_BYTES
            if pkt["kind"] == r.PK_FAN:
                self.found[port, "Data"].append(self._data_octets(p, pkt, octets))
                assert len(octets) == size
            else:
                self._note_word(port, self.bier.bodies[pkt["path"], :size].tobytes())
            free_pkt(q, sim.world.pkts, p)

    def _note_word(self, port: int, octets: bytes) -> None:
        word = parse(octets).message
        key = word.flow, word.block
        if self.queues[key]:
            self.queues[key].popleft()
        self.told[key] = 0
        self.found[port, "Feedback"].append(octets)

    def _data_octets(self, p: int, pkt: np.void, octets: bytes) -> bytes:
        words = self.sim.senders.pkt_bits[p, :-1]
        n_bytes = self.fabric.bitstring_bits // 8
        out = bytearray(octets)
        out[TTL_AT] = int(pkt["ttl"])
        bits = int.from_bytes(words.tobytes(), "little")
        out[BITS_AT : BITS_AT + n_bytes] = bits.to_bytes(n_bytes, "big")
        return bytes(out)
