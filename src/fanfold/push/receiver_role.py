"""A BFER that takes pushes: the receiving machine on a live node."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from fanfold.kernels.codes import CLASS_CONTROL, CLASS_FEEDBACK, DROP_FOREIGN_PORT
from fanfold.kernels.collect import EVENT_UNKNOWN, collect_pass
from fanfold.kernels.layout import UNDERLAY_BYTES
from fanfold.kernels.spread import is_ours
from fanfold.kernels.state import U8
from fanfold.live import sock as s
from fanfold.live.event_loop import EventLoop
from fanfold.live.turns import TurnWorker
from fanfold.push.attesting import software_digest
from fanfold.push.epochs import Epochs
from fanfold.push.gate import Gate
from fanfold.push.receipts import Desk
from fanfold.push.receiving import PushReceiver
from fanfold.push.session import Outside, Session
from fanfold.push.store import Store
from fanfold.topo.fabric import Fabric
from fanfold.topo.way_back import WaysBack
from fanfold.wire import bitstring
from fanfold.wire.ask import WHAT_RECEIPT, Ask
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.close import Close
from fanfold.wire.inner import address_of
from fanfold.wire.packet import Packet, build
from fanfold.wire.report import Report, ReportState

TTL = 64
ENDING = (ReportState.FINISHING, ReportState.DONE, ReportState.FAILED)
"""All of a push is there, or none is taken any more."""


class _To(NamedTuple):
    """Whom a REPORT goes to: BFIR-id, address, flow port, entropy of the way there."""

    bfir_id: int
    addr: int
    flow_port: int
    entropy: int


class ReceiverRole:
    """Glue between an event loop and ``PushReceiver``: arrays in, packets out."""

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        event_loop: EventLoop,
        store: Store,
        tell: Callable[[str], None] = lambda line: None,
        gate: Gate | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        node = fabric.by_name[name]
        self.fabric, self.event_loop = fabric, event_loop
        self.bsl = bitstring.bsl_of_bits(fabric.bitstring_bits)
        state = event_loop.node
        self.addr = address_of(node.address)
        self.sub_domain = fabric.sub_domain_of(name)
        gate = gate or Gate(node.bfr_id)
        self.desk = Desk(name, node.bfr_id, gate, self._name_of, gate.labels, software_digest)
        self.machine = PushReceiver(
            node.bfr_id,
            self.addr,
            state.collect,
            state.row,
            state.counters.drops,
            fabric.bitstring_bits // 64,
            store,
            Outside(
                TurnWorker(event_loop.wake),
                self._name_of,
                tell,
                WaysBack(fabric, name).entropy,
                gate,
                epochs,
            ),
        )

    def _name_of(self, bfr_id: int) -> str:
        node = self.fabric.by_bfr_id.get(bfr_id)
        return node.name if node is not None else f"BFR-id {bfr_id}"

    def on_packet(self, now: int, packet: Packet, port: int) -> None:
        """ASK and CLOSE; other kinds are not for a receiver."""
        match packet.message:
            case Ask() if packet.message.what == WHAT_RECEIPT and self._is_done(packet):
                self._give_receipt(now, packet, port)
            case Ask():
                self.machine.on_ask(now, packet, packet.message, port, self._reply)
            case Close():
                self.machine.on_close(packet, packet.message)
            case _:
                return

    def _is_done(self, packet: Packet) -> bool:
        session = self._session_of(packet)
        return session is not None and session.state == ReportState.DONE

    def _session_of(self, packet: Packet) -> Session | None:
        flow = getattr(packet.message, "flow", 0)
        return self.machine.sessions.get((packet.header.bfir_id, flow))

    def _give_receipt(self, now: int, packet: Packet, port: int) -> None:
        """DONE once more, with a receipt where the push was signed and this node has keys."""
        session = self._session_of(packet)
        assert session is not None
        session.heard_ps = now
        bare = self.machine.report_of(now, session)
        report = msgspec.structs.replace(bare, body=self.desk.body(session))
        gate = self.machine.outside.gate
        self._reply(port, packet, gate.vouched(report, session.bfir_id, session.grant))

    def on_events(self, now: int) -> None:
        """Blocks that are whole, and flows not followed yet."""
        self._follow_unknown(now)
        self.machine.on_events(now, self._send_up)

    def on_timer(self, now: int) -> None:
        """Gaps that are due, disks to look at."""
        for session in self.machine.on_timer(now, self._send_up):
            self._tell_sender(now, session)

    def _tell_sender(self, now: int, session: Session) -> None:
        """Where a push stands, without being asked."""
        report = self.machine.report_of(now, session)
        to = _To(session.bfir_id, session.bfir_addr, session.flow_port, session.entropy)
        self._send_report(session.port, to, report)

    def on_keys(self, now: int) -> None:
        """Other keys count: pushes under way that would not be let in now end, and are told."""
        gate = self.machine.outside.gate
        for session in self.machine.sessions.values():
            lost = gate.loss(session.grant, session.bfir_id)
            if lost is not None and session.state not in ENDING:
                self.machine.fail(session, lost)
                self._tell_sender(now, session)

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do."""
        return self.machine.deadline_ps(now)

    def _follow_unknown(self, now: int) -> None:
        io, node = self.event_loop.io, self.event_loop.node
        collect = node.collect
        for kind, at, _ in collect.events[: int(collect.n_events[0])].tolist():
            if kind != EVENT_UNKNOWN:
                continue
            packet = self.event_loop.packet_at(at)
            port = int(io.ints[s.PORT])
            if packet is not None and self.machine.on_unknown(now, packet, port, self._reply):
                collect_pass(
                    io.buf,
                    int(io.ints[s.FIRST]),
                    int(io.ints[s.SEG]),
                    int(io.ints[s.END]),
                    port,
                    now,
                    node.plan,
                    collect,
                    node.counters.drops,
                )

    def _reply(self, port: int, packet: Packet, report: Report) -> None:
        """By the way that the question came: a sender that hears nothing takes another one."""
        head, inner = packet.header, packet.inner
        entropy = self.machine.outside.way_back(head.bfir_id, head.entropy)
        self._send_report(port, _To(head.bfir_id, inner.src, inner.sport, entropy), report)

    def _send_report(self, port: int, to: "_To", report: Report) -> None:
        si, position = bitstring.place(to.bfir_id, self.bsl)
        header = BierHeader(
            bift_id=bitstring.bift_id(self.bsl, self.sub_domain, si),
            ttl=TTL,
            entropy=to.entropy,
            proto=PROTO_IPV4,
            bfir_id=report.bfr_id,
            bitstring=1 << (position - 1),
        )
        packet = build(header, self.addr, to.addr, to.flow_port, report)
        self._send(port, to.bfir_id, to.flow_port, packet, CLASS_CONTROL)

    def _send_up(self, session: Session, packet: U8) -> None:
        self._send(
            session.port, session.bfir_id, session.flow_port, packet.data, CLASS_FEEDBACK
        )

    def _send(
        self, port: int, bfir_id: int, flow_port: int, packet: bytes | memoryview, kind: int
    ) -> None:
        node = self.event_loop.node
        dport = flow_port if node.ports.bfr_id[port] == bfir_id else self.fabric.port
        if not is_ours(dport):
            node.counters.drops[DROP_FOREIGN_PORT] += 1
            return
        if self.event_loop.send(packet, port, dport):
            node.counters.tx[port, kind, 0] += 1
            node.counters.tx[port, kind, 1] += len(packet) + UNDERLAY_BYTES
