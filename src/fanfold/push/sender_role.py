"""A BFIR that pushes: the sending machine on a live node."""

from collections.abc import Callable

import msgspec
import numpy as np

from fanfold.core.effects import SendBlock
from fanfold.kernels.codes import DROP_BAD_MAC, DROP_NOT_BELIEVED, DROP_WRONG_PORT
from fanfold.kernels.slots import NEVER_PS
from fanfold.live import pump as p
from fanfold.live import sock as s
from fanfold.live.clock import now_ps
from fanfold.live.event_loop import EventLoop
from fanfold.live.outbox import TTL, Outbox, sets_of
from fanfold.push.planes import ENTROPY_MASK
from fanfold.push.sending import PushEffect, PushSender, SendControl
from fanfold.wire import bitstring
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import Packet, build
from fanfold.wire.report import Report


class SenderRole:
    """Glue between an event loop, its outbox and ``PushSender``."""

    def __init__(self, event_loop: EventLoop, outbox: Outbox, machine: PushSender) -> None:
        self.event_loop, self.outbox, self.machine = event_loop, outbox, machine
        self.n_feedback = 0
        self.n_merged = 0
        self.signed: Callable[[Close], Close] = lambda close: close
        """What makes a CLOSE the sender's own."""
        self._next_ps = 0
        self._due_ps = 0
        outbox.on_sent = self._on_sent

    def on_packet(self, now: int, packet: Packet, port: int) -> None:
        """FEEDBACK and REPORT; other kinds are not for a sender."""
        self._listen(now)
        out: list[PushEffect] = []
        match packet.message:
            case Feedback():
                if packet.message.flow == self.machine.flow | 1:
                    self.n_feedback += 1
                    self.n_merged += packet.message.n_merged
                self.machine.on_feedback(now, self._widen(packet.message), out)
            case Report() if packet.message.bfr_id != packet.header.bfir_id:
                self.event_loop.node.counters.drops[DROP_WRONG_PORT] += 1
                return
            case Report():
                n_forged = self.machine.n_forged
                if not self.machine.on_report(now, packet.message, out):
                    is_forged = self.machine.n_forged > n_forged
                    reason = DROP_BAD_MAC if is_forged else DROP_NOT_BELIEVED
                    self.event_loop.node.counters.drops[reason] += 1
            case _:
                return
        self._perform(out)

    def on_events(self, now: int) -> None:
        """A sender follows no flow."""
        self.event_loop.node.collect.n_events[0] = 0

    def on_timer(self, now: int) -> None:
        """Timers, new blocks, pieces whose time has come."""
        self._listen(now)
        out: list[PushEffect] = []
        if now >= self.machine.deadline_ps():
            self.machine.on_timer(now, out)
        self.machine.fill(now, out, self.outbox.has_room)
        self._perform(out)
        self._next_ps = self.outbox.flush(now, self._rate)
        if out and self._next_ps == NEVER_PS:
            self._next_ps = now

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do."""
        self._due_ps = self.machine.deadline_ps()
        return min(self._next_ps, self._due_ps)

    def _listen(self, now: int) -> None:
        """Tell the machine what this node could have heard until now."""
        self.machine.ear.listen(now, self._due_ps, int(self.event_loop.io.ints[s.EMPTY_PS]))

    def send_control(self, effect: SendControl) -> None:
        """Send an ASK or CLOSE to its receivers, one packet for each SI."""
        box = self.outbox
        for si in sets_of((effect.bits,), box.n_bits):
            part = effect.bits >> (si * box.n_bits) & ((1 << box.n_bits) - 1)
            header = BierHeader(
                bift_id=bitstring.bift_id(box.bsl, box.sub_domain, si),
                ttl=TTL,
                bfir_id=box.bfr_id,
                bitstring=part,
                entropy=self._entropy(effect.way),
                proto=PROTO_IPV4,
            )
            packet = np.frombuffer(
                build(header, box.addr, GROUP_ADDRESS, box.flow_port, effect.message), np.uint8
            ).copy()
            p.transmit(box.io, box.node, packet, packet.shape[0], packet.shape[0])

    def _entropy(self, way: int) -> int:
        """Another way is another plane first, then another BIFT."""
        more, plane = divmod(way, len(self.outbox.entropies))
        return (self.outbox.entropies[plane] + more) & ENTROPY_MASK

    def send_close(self, reason: CloseReason) -> None:
        """Say goodbye, twice: nobody confirms it."""
        for last in self.machine.close(reason):
            message = last.message
            if isinstance(message, Close):
                message = self.signed(message)
            self.send_control(msgspec.structs.replace(last, message=message))

    def _perform(self, out: list[PushEffect]) -> None:
        for effect in out:
            match effect:
                case SendBlock():
                    self.outbox.add(effect)
                case SendControl():
                    self.send_control(effect)
                case _:
                    pass

    def _on_sent(self, job: SendBlock) -> None:
        self.machine.on_sent(now_ps(), job)

    def _rate(self, flow: int, lane: int) -> int:
        for fan in self.machine.fans():
            if fan.flow == flow:
                return fan.lane_rate_bps(lane)
        return 1

    def _widen(self, feedback: Feedback) -> Feedback:
        """BitStrings of one SI to those of the machine, over all SIs."""
        shift = bitstring.split_bift_id(feedback.bift_id).si * self.outbox.n_bits
        if shift == 0:
            return feedback
        return msgspec.structs.replace(
            feedback,
            heard=feedback.heard << shift,
            done=feedback.done << shift,
            rows=tuple(FeedbackRow(row.psn, row.lacking << shift) for row in feedback.rows),
        )


def drive(role: SenderRole, is_over: Callable[[], bool], tick: Callable[[int], None]) -> None:
    """Run a push until the machine is done or ``is_over``; ``tick`` sees progress."""
    event_loop = role.event_loop
    while not role.machine.is_done() and not is_over():
        event_loop.step()
        tick(now_ps())
