"""The sending end of a push: manifest first, then data, then word from every receiver.

A machine: packets and time in, effects out. Two flows share a flow port: the even one carries
the manifest, the odd one the data (docs/wire/fan.md). Receivers are BFR-ids; bit index in the
machine's BitStrings is BFR-id - 1 over all SIs, the driver cuts them into sets. Handlers take
the driver's time, and judge by that in which this node could have heard (core/ear.py).
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from fanfold.core.ear import Ear
from fanfold.core.effects import Effect, ReceiverLost, ReceiverSplit, SendBlock
from fanfold.core.flight import Shape, members_of
from fanfold.core.striped import StripedSender
from fanfold.push.envelope import NO_NONCE
from fanfold.push.expected import Expected
from fanfold.push.peer import ENDED, UNREADY, Peer, State
from fanfold.push.plane_fans import ONE_PLANE, Fan, Planes, build_fan
from fanfold.push.proof import Proof
from fanfold.push.stuck import why_stuck
from fanfold.units import NEVER
from fanfold.wire.ask import Ask
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.feedback import Feedback
from fanfold.wire.report import Report, ReportState

ASK_PS = 150_000_000_000
"""How often receivers that owe a word on the push are asked."""
FIRST_ASK_PS = 40_000_000_000
"""When they are asked first, and again; then after twice as long each time, up to ASK_PS."""
QUIET_PS = 400_000_000_000
"""A receiver not heard for this long is asked for a sign of life."""
SILENT_PS = 2_000_000_000_000
"""A receiver that answers nothing for this long is set aside until it speaks again."""
PATIENCE_PS = 30_000_000_000_000
"""A push waits this long for those who are silent when all others have ended, from the last
word of anybody on."""
JOIN_PS = 1_000_000_000_000
"""The data waits this long for receivers that are still looking at their disks."""
DOUBT_PS = 300_000_000_000
"""A receiver whose own words deny for this long what FEEDBACK claimed for it is believed."""
MAX_RESTARTS = 16
"""A receiver that forgets the push more often than this is given up."""
SLICE_BYTES = 1024
SLICE_CHUNKS = 8 * SLICE_BYTES


class SendControl(msgspec.Struct, frozen=True):
    """Send an ASK or CLOSE to a BitString; way: 0 that of the data, else another one."""

    message: Ask | Close
    bits: int
    way: int = 0


PushEffect = Effect | SendControl


class PushSender:
    """One push to a set of receivers.

    Args:
        flow: even flow id. manifest_shape, data_shape: geometry of both fans.
        ids: BFR-ids of the receivers. cap_bps: rate asked for by hand, 0 = none.
        planes: over which the blocks of both fans go.
    """

    def __init__(
        self,
        now_ps: int,
        flow: int,
        manifest_shape: Shape,
        data_shape: Shape,
        ids: Sequence[int],
        cap_bps: int,
        proof: Proof,
        planes: Planes = ONE_PLANE,
    ) -> None:
        self.ear = Ear(now_ps)
        self.flow = flow
        self.proof = proof
        self.data_shape, self.expected = data_shape, Expected(data_shape)
        self.peers = {i - 1: Peer(now_ps) for i in ids}
        everyone = sum(1 << k for k in self.peers)
        self.cap_bps, self._planes = cap_bps, planes
        self.manifest_fan = self._build_fan(flow, manifest_shape, [everyone])
        self.data_fan: Fan | None = None
        self._fans = [self.manifest_fan]
        self.start_ps = now_ps
        self.data_start_ps = 0
        self.n_reports = 0
        self.n_forged = 0  # words that lacked the MAC of who they name
        self._ready: dict[int, Sequence[int]] = {}
        self._unready = list(self.peers)
        self._first_ready_ps: int = NEVER
        self._ask_gap_ps = 0
        self._ask_ps = now_ps + FIRST_ASK_PS
        self._asked_ps = now_ps
        self._is_whole = False  # nobody lacks data
        self.patience_ps = PATIENCE_PS
        """How long those who are silent are waited for when all others have ended."""

    def _build_fan(self, flow: int, shape: Shape, need: Sequence[int]) -> Fan:
        return build_fan(self._planes, flow, shape, need, self.cap_bps)

    def set_weights(self, now_ps: int, weights: Sequence[int]) -> None:
        """Other shares of planes from now on, in the order of those it began with."""
        self._planes = self._planes._replace(weights=tuple(weights))
        for fan in self.fans():
            if isinstance(fan, StripedSender):
                fan.set_weights(self.ear.time_ps(now_ps), weights)

    def fans(self) -> list[Fan]:
        """Fans that exist now."""
        return self._fans

    def is_done(self) -> bool:
        """Every receiver ended, well or not."""
        return all(p.state in ENDED for p in self.peers.values())

    def deadline_ps(self) -> int:
        """Next time ``on_timer`` has something to do; 0 is now."""
        if self._is_whole != self._lacks_nobody():
            return 0
        due_ps = self._ask_ps
        for fan in self._fans:
            due_ps = min(due_ps, fan.deadline_ps())
        return due_ps + self.ear.unheard_ps

    def fill(
        self,
        now_ps: int,
        out: list[PushEffect],
        has_room: Callable[[int, int], bool] = lambda flow, lane: True,
    ) -> None:
        """Give new blocks to send, as far as windows allow."""
        now_ps = self.ear.time_ps(now_ps)
        effects: list[Effect] = []
        for fan in self._fans:
            if not fan.is_done():
                fan.fill(now_ps, effects, has_room)
        self._pass_on(now_ps, effects, out)

    def on_sent(self, now_ps: int, job: SendBlock) -> None:
        """The last packet of a job left."""
        for fan in self.fans():
            if fan.flow == job.flow:
                fan.on_sent(self.ear.time_ps(now_ps), job)

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[PushEffect]) -> None:
        """A branch reported on a block."""
        effects: list[Effect] = []
        if feedback.flow | 1 != self.flow | 1:
            return
        now_ps = self.ear.time_ps(now_ps)
        for k in members_of(feedback.heard):
            if k in self.peers:
                self._hear(now_ps, self.peers[k])
        for fan in self.fans():
            if fan.flow == feedback.flow:
                fan.on_feedback(now_ps, feedback, effects)
        self._pass_on(now_ps, effects, out)

    def _hear(self, now_ps: int, peer: Peer) -> None:
        """FEEDBACK is a sign of life; one that was silent is asked where it stands."""
        if peer.state in ENDED:
            return
        peer.heard_ps = now_ps
        if peer.state == State.SILENT:
            peer.call_soon(now_ps)
            self._ask_ps = min(self._ask_ps, max(now_ps, self._asked_ps + FIRST_ASK_PS))

    def on_report(self, now_ps: int, report: Report, out: list[PushEffect]) -> bool:
        """A receiver reported on the push; False when its word does not count."""
        peer = self.peers.get(report.bfr_id - 1)
        now_ps = self.ear.time_ps(now_ps)
        if peer is None or report.flow != self.flow:
            return False
        if report.nonce != self.proof.nonce:
            self._on_strange(now_ps, peer, report)
            return False
        if not self.proof.is_from(report):
            peer.n_forged += 1
            self.n_forged += 1
            return False
        self.n_reports += 1
        peer.heard_ps = now_ps
        peer.is_silent = peer.is_strange = peer.is_owing = False
        bit = report.bfr_id - 1
        if peer.state == State.SILENT and not peer.come_back(report.n_have):
            self._on_end(bit, peer, State.FAILED, "came back again and again, gained nothing")
        else:
            return self._on_word(now_ps, bit, peer, report, out)
        return True

    def _on_word(
        self, now_ps: int, bit: int, peer: Peer, report: Report, out: list[PushEffect]
    ) -> bool:
        for fan in self.fans():
            fan.hear(now_ps, bit)
        denied_ps, peer.denied_ps = peer.denied_ps, NEVER
        match report.state:
            case ReportState.UNKNOWN:
                self._on_unknown(now_ps, bit, peer)
            case ReportState.CHECKING | ReportState.FINISHING:
                self._on_busy(now_ps, bit, peer, report, denied_ps)
            case ReportState.READY:
                self.manifest_fan.remove(1 << bit)  # it has it, though word of that may be lost
                self._on_ready(now_ps, bit, peer, report, denied_ps, out)
            case ReportState.DONE:
                return self._on_done(now_ps, bit, peer, report.digest)
            case _:
                self._on_end(bit, peer, State.FAILED, peer.refusal(report))
        return True

    def on_timer(self, now_ps: int, out: list[PushEffect]) -> None:
        """Timers of the fans, questions to those who owe a word, the start of the data."""
        now_ps = self.ear.time_ps(now_ps)
        effects: list[Effect] = []
        for fan in self.fans():
            fan.on_timer(now_ps, effects)
        self._pass_on(now_ps, effects, out)
        self._start_data(now_ps)
        if self._is_whole != self._lacks_nobody():
            self._is_whole, self._ask_gap_ps, self._ask_ps = not self._is_whole, 0, now_ps
        if now_ps >= self._ask_ps:
            self._asked_ps = now_ps
            self._ask(now_ps, out)
            self._ask_ps = now_ps + max(self._ask_gap_ps, FIRST_ASK_PS)

    def kept(self, peer: Peer) -> int:
        """Blocks that a receiver had before this push."""
        has_all = self.data_shape.n_blocks if peer.state == State.VERIFIED else 0
        return has_all if peer.n_kept is None else peer.n_kept

    def close(self, reason: CloseReason) -> list[SendControl]:
        """The last message of the push, by two ways."""
        everyone = sum(1 << k for k in self.peers)
        message = Close(flow=self.flow, reason=reason)
        return [SendControl(message, everyone, way) for way in (0, 1)]

    def _pass_on(self, now_ps: int, effects: list[Effect], out: list[PushEffect]) -> None:
        for effect in effects:
            match effect:
                case ReceiverLost(bit=bit, reason="silent"):
                    self._set_aside(now_ps, bit, self.peers[bit])
                case ReceiverLost(bit=bit, silent_ps=stalled_ps):
                    what = f"answered, but finished nothing for {stalled_ps / 1e12:.1f} s"
                    self._on_end(bit, self.peers[bit], State.FAILED, what)
                    self.peers[bit].is_cut = True
                case ReceiverSplit(bit=bit):
                    self.peers[bit].is_split = True
                case SendBlock():
                    out.append(effect)
                case _:
                    pass

    def _set_aside(self, now_ps: int, bit: int, peer: Peer) -> None:
        """Nothing is sent to a silent receiver but questions, until it answers one."""
        peer.fall_silent(now_ps)
        self._forget(bit)

    def give_up_silent(self, now_ps: int) -> None:
        """Who is silent now stays so: the push ends without it."""
        now_ps = self.ear.time_ps(now_ps)
        for bit, peer in self.peers.items():
            if peer.state == State.SILENT:
                self._on_end(bit, peer, State.FAILED, peer.why_silent(now_ps))
                peer.is_silent = True

    def _on_end(self, bit: int, peer: Peer, state: State, error: str) -> None:
        peer.state, peer.error = state, error
        self._forget(bit)

    def _forget(self, bit: int) -> None:
        """It is sent nothing more."""
        self._ready.pop(bit, None)
        for fan in self.fans():
            fan.remove(1 << bit)

    def _on_unknown(self, now_ps: int, bit: int, peer: Peer) -> None:
        """A receiver that came late, or came back: it gets the manifest again."""
        if self.manifest_fan.lacking() >> bit & 1:
            self.manifest_fan.nudge(now_ps, bit)
            return
        peer.n_restarts += 1
        if peer.n_restarts > MAX_RESTARTS:
            what = f"forgot the push {peer.n_restarts} times"
            self._on_end(bit, peer, State.FAILED, what)
            return
        peer.state, peer.error, peer.slices = State.WAITING, "", {}
        peer.idle_ps, peer.progress, peer.remembers = NEVER, 0, False
        if self.data_fan is not None:
            self.data_fan.remove(1 << bit)
        self.manifest_fan.add(now_ps, bit, range(self.manifest_fan.shape.n_blocks))

    def _on_done(self, now_ps: int, bit: int, peer: Peer, digest: bytes) -> bool:
        """It has all, with the source's own BLAKE3; with another one it is not believed."""
        if digest != self.proof.digest:
            peer.other = digest
            return False
        self._on_end(bit, peer, State.VERIFIED, "")
        peer.digest, peer.done_ps = self.proof.shown or digest, now_ps + self.ear.unheard_ps
        peer.n_have = self.data_shape.n_blocks
        return True

    def _on_strange(self, now_ps: int, peer: Peer, report: Report) -> None:
        """A word without the nonce proves nothing; one of nobody's asking may be a joiner's."""
        if report.nonce == NO_NONCE and not peer.is_strange:
            peer.is_strange = True
            self._ask_ps = min(self._ask_ps, max(now_ps, self._asked_ps + FIRST_ASK_PS))

    def _on_busy(
        self, now_ps: int, bit: int, peer: Peer, report: Report, denied_ps: int
    ) -> None:
        if report.state == ReportState.FINISHING:
            self._on_finishing(now_ps, bit, peer, report)
        else:
            self._on_checking(now_ps, bit, peer, report, denied_ps)

    def _on_checking(
        self, now_ps: int, bit: int, peer: Peer, report: Report, denied_ps: int
    ) -> None:
        """It looks at its disk, or the manifest is not there yet (cursor 0)."""
        if peer.state in (State.WAITING, State.FAILED):
            peer.state, peer.error = State.CHECKING, ""
        peer.note = report.body.decode("utf-8", "replace")
        if report.cursor + report.n_have > peer.progress:
            peer.progress, peer.moved_ps = report.cursor + report.n_have, now_ps
        is_claimed = not self.manifest_fan.lacking() >> bit & 1
        if report.cursor == 0 and is_claimed and _is_denied(now_ps, peer, denied_ps):
            self.manifest_fan.add(now_ps, bit, range(self.manifest_fan.shape.n_blocks))

    def _on_finishing(self, now_ps: int, bit: int, peer: Peer, report: Report) -> None:
        """It has all and puts files in place, whatever word of the last blocks was lost."""
        if peer.state == State.VERIFIED:
            return
        for fan in self.fans():
            fan.remove(1 << bit)
        self._ready.pop(bit, None)
        if peer.state != State.FINISHING or report.cursor > peer.progress:
            peer.progress, peer.moved_ps = report.cursor, now_ps
        peer.state, peer.error, peer.note = State.FINISHING, "", ""
        peer.n_have = self.data_shape.n_blocks

    def _on_ready(
        self,
        now_ps: int,
        bit: int,
        peer: Peer,
        report: Report,
        denied_ps: int,
        out: list[PushEffect],
    ) -> None:
        peer.n_have = report.n_have
        peer.n_kept = report.n_have if peer.n_kept is None else peer.n_kept
        fan = self.data_fan
        if peer.state not in (State.WAITING, State.CHECKING):
            if fan is None or report.n_have >= self.data_shape.n_blocks:
                return
            if fan.n_lacking.get(bit, 0):
                fan.nudge(now_ps, bit)
                return
            if not _is_denied(now_ps, peer, denied_ps):
                return
            peer.state, peer.slices = State.CHECKING, {}  # FEEDBACK is a hint, this is its word
        lacks = self._lacks(peer, report)
        if lacks is None:
            cursor = next(c for c in range(self._n_slices()) if c not in peer.slices)
            out.append(SendControl(self._question(cursor), 1 << bit, peer.way))
            return
        peer.state = State.RECEIVING
        self._first_ready_ps = min(self._first_ready_ps, now_ps)
        self.expected.note(bit, lacks)
        if self.data_fan is None:
            self._ready[bit] = lacks
            self._start_data(now_ps)
        else:
            self.data_fan.add(now_ps, bit, lacks, remembers=peer.remembers)

    def _n_slices(self) -> int:
        return -(-self.data_shape.n_blocks // SLICE_CHUNKS)

    def _lacks(self, peer: Peer, report: Report) -> Sequence[int] | None:
        """Chunks a receiver lacks; None while slices of its have-map are missing."""
        n = self.data_shape.n_blocks
        if report.n_have == 0:
            return range(n)
        if report.n_have >= n:
            return ()
        if report.cursor < self._n_slices() and report.body:
            peer.slices[report.cursor] = report.body[:SLICE_BYTES]
        if len(peer.slices) < self._n_slices():
            return None
        whole = b"".join(peer.slices[c].ljust(SLICE_BYTES, b"\0") for c in sorted(peer.slices))
        have = np.unpackbits(np.frombuffer(whole, np.uint8))[:n]
        return [int(i) for i in np.flatnonzero(have == 0)]

    def _start_data(self, now_ps: int) -> None:
        if self.data_fan is not None or not self._ready:
            return
        if now_ps - self._first_ready_ps < JOIN_PS and self._waits_for_some():
            return
        need = self.expected.needs(self._ready)
        self._ready = {}
        self.data_start_ps = now_ps + self.ear.unheard_ps
        self.data_fan = self._build_fan(self.flow | 1, self.data_shape, need)
        self.data_fan.slots_ps = self.manifest_fan.slots_ps
        self._fans = [self.manifest_fan, self.data_fan]

    def _waits_for_some(self) -> bool:
        """Some have not looked at their disks; all are looked at again when none is left."""
        while self._unready and self.peers[self._unready[-1]].state not in UNREADY:
            self._unready.pop()
        if not self._unready:
            self._unready = [k for k, p in self.peers.items() if p.state in UNREADY]
        return bool(self._unready)

    def _lacks_nobody(self) -> bool:
        return self.data_fan is not None and self.data_fan.is_done()

    def _is_stuck(self, now_ps: int, bit: int, peer: Peer, lacking: int) -> bool:
        """Give up a receiver that lacks nothing, says that it lives, and never ends."""
        is_served = lacking >> bit & 1 or bit in self._ready
        if peer.state in (State.WAITING, State.SILENT) or is_served:
            peer.idle_ps = NEVER
            return False
        why = why_stuck(now_ps, peer, self.proof, self.data_shape.n_bytes)
        if why:
            self._on_end(bit, peer, State.FAILED, why)
        return bool(why)

    def _question(self, cursor: int) -> Ask:
        return Ask(flow=self.flow, cursor=cursor, nonce=self.proof.nonce)

    def _ask(self, now_ps: int, out: list[PushEffect]) -> None:
        """Ask all who owe a word; set aside who has been silent too long."""
        lacking = quiet = 0
        for fan in self.fans():
            lacking |= fan.lacking()
            quiet |= fan.lacking() if fan.is_quiet(now_ps) else 0
        asked = 0
        for bit, peer in self.peers.items():
            if peer.state in ENDED:
                continue
            if self._is_stuck(now_ps, bit, peer, lacking):
                continue
            if self._is_asked(now_ps, bit, peer, (quiet | ~lacking) >> bit & 1):
                asked |= 1 << bit
        self._wait_for_silent(now_ps)
        self._put_question(asked, out)
        gap_ps = min(max(2 * self._ask_gap_ps, FIRST_ASK_PS), ASK_PS)
        self._ask_gap_ps = gap_ps if asked else 0

    def _is_asked(self, now_ps: int, bit: int, peer: Peer, owes_word: int) -> bool:
        is_served = any(fan.n_lacking.get(bit, 0) for fan in self.fans())
        is_mute = now_ps - peer.heard_ps >= SILENT_PS and not is_served
        if is_mute and peer.state != State.SILENT:
            self._set_aside(now_ps, bit, peer)
        if peer.state == State.SILENT:
            return peer.is_called(now_ps)
        if peer.is_strange or now_ps - peer.heard_ps >= QUIET_PS:
            return True
        return bool(owes_word) and bit not in self._ready

    def _wait_for_silent(self, now_ps: int) -> None:
        """While anybody is served the silent may come back; then as long as the patience."""
        if any(p.state not in (*ENDED, State.SILENT) for p in self.peers.values()):
            return
        if now_ps - max(p.heard_ps for p in self.peers.values()) >= self.patience_ps:
            self.give_up_silent(now_ps)

    def _put_question(self, asked: int, out: list[PushEffect]) -> None:
        """Ask; who did not answer the last question is asked, and answers, by another way."""
        by_way: dict[int, int] = {}
        for bit in members_of(asked):
            way = self.peers[bit].next_way()
            by_way[way] = by_way.get(way, 0) | 1 << bit
        out += [SendControl(self._question(0), bits, way) for way, bits in by_way.items()]


def _is_denied(now_ps: int, peer: Peer, denied_ps: int) -> bool:
    """Whether a receiver's words have denied for long enough what FEEDBACK claimed for it.

    The first such word may be older than the FEEDBACK, and have come by another way.
    """
    peer.denied_ps = min(denied_ps, now_ps)
    if now_ps - peer.denied_ps < DOUBT_PS:
        return False
    peer.denied_ps = NEVER
    return True
