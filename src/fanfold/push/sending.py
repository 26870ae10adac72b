"""The sending end of a push: manifest first, then data, then word from every receiver.

A machine: packets and time in, effects out. Two flows share a flow port: the even one carries
the manifest, the odd one the data (docs/wire/fan.md). Receivers are BFR-ids; bit index in the
machine's BitStrings is BFR-id - 1 over all SIs, the driver cuts them into sets.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from fanfold.core.effects import Effect, ReceiverLost, ReceiverSplit, SendBlock
from fanfold.core.flight import Shape, members_of
from fanfold.core.sender import FanSender
from fanfold.push.envelope import NO_NONCE, Proof
from fanfold.units import NEVER, PS_PER_SECOND
from fanfold.wire.ask import Ask
from fanfold.wire.close import Close
from fanfold.wire.feedback import Feedback
from fanfold.wire.report import Report, ReportError, ReportState

ASK_PS = 150_000_000_000
"""How often receivers that owe a word on the push are asked."""
FIRST_ASK_PS = 40_000_000_000
"""When they are asked first, and again; then after twice as long each time, up to ASK_PS."""
QUIET_PS = 400_000_000_000
"""A receiver not heard for this long is asked for a sign of life."""
SILENT_PS = 2_000_000_000_000
"""A receiver that answers nothing for this long is given up."""
JOIN_PS = 1_000_000_000_000
"""The data waits this long for receivers that are still looking at their disks."""
STALL_PS = 20_000_000_000_000
"""A receiver that has everything, and answers, but never ends: given up as well."""
STALL_S = STALL_PS // PS_PER_SECOND
CHECK_PS = 120_000_000_000_000
CHECK_PS_PER_BYTE = 100_000
CHECK_PS_PER_FILE = 100_000_000_000
"""A receiver may work on its disk for this long in all, whatever progress it tells of: two
minutes, and as long as 10 MB/s and ten files a second take."""
DOUBT_PS = 300_000_000_000
"""A receiver whose own words deny for this long what FEEDBACK claimed for it is believed."""
MAX_RESTARTS = 16
"""A receiver that forgets the push more often than this is given up."""
SLICE_BYTES = 1024
SLICE_CHUNKS = 8 * SLICE_BYTES


class State(StrEnum):
    """Where a receiver stands, as the sender knows it."""

    WAITING = "waiting"
    CHECKING = "checking"
    RECEIVING = "receiving"
    VERIFIED = "verified"
    FAILED = "failed"


UNREADY = (State.WAITING, State.CHECKING)


class SendControl(msgspec.Struct, frozen=True):
    """Send an ASK or CLOSE to a BitString."""

    message: Ask | Close
    bits: int


PushEffect = Effect | SendControl


class Peer:
    """One receiver."""

    def __init__(self, now_ps: int) -> None:
        self.state = State.WAITING
        self.error = ""
        self.digest = b""
        self.done_ps = 0
        self.n_have = 0
        self.heard_ps = now_ps
        self.slices: dict[int, bytes] = {}
        self.is_split = False
        self.is_silent = False
        self.n_restarts = 0
        self.is_strange = False  # a word of it lacked the nonce: it is asked
        self.other = b""  # digest that it was done with, unlike the source's
        self.denied_ps: int = NEVER  # since when its words deny what FEEDBACK claimed for it
        self.idle_ps: int = NEVER  # since when nothing is waited for but its own work
        self.moved_ps: int = NEVER  # when it told of progress in that last
        self.progress = 0


class PushSender:
    """One push to a set of receivers.

    Args:
        flow: even flow id. manifest_shape, data_shape: geometry of both fans.
        ids: BFR-ids of the receivers. cap_bps: rate asked for by hand, 0 = none.
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
    ) -> None:
        self.flow = flow
        self.proof = proof
        self.data_shape = data_shape
        self.peers = {i - 1: Peer(now_ps) for i in ids}
        everyone = sum(1 << k for k in self.peers)
        self.manifest_fan = FanSender(flow, manifest_shape, [everyone], cap_bps)
        self.data_fan: FanSender | None = None
        self.cap_bps = cap_bps
        self.start_ps = now_ps
        self.data_start_ps = 0
        self.n_reports = 0
        self._ready: dict[int, Sequence[int]] = {}
        self._unready = list(self.peers)
        self._first_ready_ps: int = NEVER
        self._ask_gap_ps = 0
        self._ask_ps = now_ps + FIRST_ASK_PS
        self._asked_ps = now_ps
        self._is_whole = False  # nobody lacks data

    def fans(self) -> list[FanSender]:
        """Fans that exist now."""
        return [self.manifest_fan] + ([self.data_fan] if self.data_fan else [])

    def is_done(self) -> bool:
        """Every receiver ended, well or not."""
        return all(p.state in (State.VERIFIED, State.FAILED) for p in self.peers.values())

    def deadline_ps(self) -> int:
        """Next time ``on_timer`` has something to do; 0 is now."""
        if self._is_whole != self._lacks_nobody():
            return 0
        return min([self._ask_ps] + [fan.deadline_ps() for fan in self.fans()])

    def fill(
        self,
        now_ps: int,
        out: list[PushEffect],
        has_room: Callable[[int, int], bool] = lambda flow, lane: True,
    ) -> None:
        """Give new blocks to send, as far as windows allow."""
        effects: list[Effect] = []
        for fan in self.fans():
            fan.fill(now_ps, effects, has_room)
        self._pass_on(effects, out)

    def on_feedback(self, now_ps: int, feedback: Feedback, out: list[PushEffect]) -> None:
        """A branch reported on a block."""
        effects: list[Effect] = []
        if feedback.flow | 1 != self.flow | 1:
            return
        for k in members_of(feedback.heard):
            if k in self.peers:
                self.peers[k].heard_ps = now_ps
        for fan in self.fans():
            if fan.flow == feedback.flow:
                fan.on_feedback(now_ps, feedback, effects)
        self._pass_on(effects, out)

    def on_report(self, now_ps: int, report: Report, out: list[PushEffect]) -> bool:
        """A receiver reported on the push; False when its word does not count."""
        peer = self.peers.get(report.bfr_id - 1)
        if peer is None or report.flow != self.flow:
            return False
        if report.nonce != self.proof.nonce:
            self._on_strange(now_ps, peer, report)
            return False
        self.n_reports += 1
        peer.heard_ps = now_ps
        peer.is_silent = peer.is_strange = False
        bit = report.bfr_id - 1
        for fan in self.fans():
            fan.hear(now_ps, bit)
        denied_ps, peer.denied_ps = peer.denied_ps, NEVER
        match report.state:
            case ReportState.UNKNOWN:
                self._on_unknown(now_ps, bit, peer)
            case ReportState.CHECKING:
                self._on_checking(now_ps, bit, peer, report, denied_ps)
            case ReportState.READY:
                self.manifest_fan.remove(1 << bit)  # it has it, though word of that may be lost
                self._on_ready(now_ps, bit, peer, report, denied_ps, out)
            case ReportState.DONE:
                return self._on_done(now_ps, bit, peer, report.digest)
            case _:
                text = report.body.decode("utf-8", "replace")
                name = ReportError(report.error).name.lower()
                self._on_end(bit, peer, State.FAILED, f"{name}: {text}" if text else name)
        return True

    def on_timer(self, now_ps: int, out: list[PushEffect]) -> None:
        """Timers of the fans, questions to those who owe a word, the start of the data."""
        effects: list[Effect] = []
        for fan in self.fans():
            fan.on_timer(now_ps, effects)
        self._pass_on(effects, out)
        self._start_data(now_ps)
        if self._is_whole != self._lacks_nobody():
            self._is_whole, self._ask_gap_ps, self._ask_ps = not self._is_whole, 0, now_ps
        if now_ps >= self._ask_ps:
            self._asked_ps = now_ps
            self._ask(now_ps, out)
            self._ask_ps = now_ps + max(self._ask_gap_ps, FIRST_ASK_PS)

    def close(self, *, is_aborted: bool) -> SendControl:
        """The last message of the push."""
        everyone = sum(1 << k for k in self.peers)
        return SendControl(Close(flow=self.flow, reason=int(is_aborted)), everyone)

    def _pass_on(self, effects: list[Effect], out: list[PushEffect]) -> None:
        for effect in effects:
            match effect:
                case ReceiverLost(bit=bit, reason=reason, silent_ps=silent_ps):
                    what = "silent" if reason == "silent" else "answered, but finished nothing"
                    self._fail_silent(bit, f"{what} for {silent_ps / 1e12:.1f} s")
                case ReceiverSplit(bit=bit):
                    self.peers[bit].is_split = True
                case SendBlock():
                    out.append(effect)
                case _:
                    pass

    def _fail_silent(self, bit: int, error: str) -> None:
        self._on_end(bit, self.peers[bit], State.FAILED, error)
        self.peers[bit].is_silent = True

    def _on_end(self, bit: int, peer: Peer, state: State, error: str) -> None:
        peer.state, peer.error = state, error
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
        peer.idle_ps, peer.progress = NEVER, 0
        if self.data_fan is not None:
            self.data_fan.remove(1 << bit)
        self.manifest_fan.add(now_ps, bit, range(self.manifest_fan.shape.n_blocks))

    def _on_done(self, now_ps: int, bit: int, peer: Peer, digest: bytes) -> bool:
        """It has all, with the source's own BLAKE3; with another one it is not believed."""
        if digest != self.proof.digest:
            peer.other = digest
            return False
        self._on_end(bit, peer, State.VERIFIED, "")
        peer.digest, peer.done_ps = digest, now_ps
        peer.n_have = self.data_shape.n_blocks
        return True

    def _on_strange(self, now_ps: int, peer: Peer, report: Report) -> None:
        """A word without the nonce proves nothing; one of nobody's asking may be a joiner's."""
        if report.nonce == NO_NONCE and not peer.is_strange:
            peer.is_strange = True
            self._ask_ps = min(self._ask_ps, max(now_ps, self._asked_ps + FIRST_ASK_PS))

    def _on_checking(
        self, now_ps: int, bit: int, peer: Peer, report: Report, denied_ps: int
    ) -> None:
        """It looks at its disk, or the manifest is not there yet (cursor 0)."""
        if peer.state in (State.WAITING, State.FAILED):
            peer.state, peer.error = State.CHECKING, ""
        if report.cursor + report.n_have > peer.progress:
            peer.progress, peer.moved_ps = report.cursor + report.n_have, now_ps
        is_claimed = not self.manifest_fan.lacking() >> bit & 1
        if report.cursor == 0 and is_claimed and _is_denied(now_ps, peer, denied_ps):
            self.manifest_fan.add(now_ps, bit, range(self.manifest_fan.shape.n_blocks))

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
            out.append(SendControl(self._question(cursor), 1 << bit))
            return
        peer.state = State.RECEIVING
        self._first_ready_ps = min(self._first_ready_ps, now_ps)
        if self.data_fan is None:
            self._ready[bit] = lacks
            self._start_data(now_ps)
        else:
            self.data_fan.add(now_ps, bit, lacks)

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
        need = [0] * self.data_shape.n_blocks
        for bit, lacks in self._ready.items():
            mask = 1 << bit
            for block in lacks:
                need[block] |= mask
        self._ready = {}
        self.data_start_ps = now_ps
        self.data_fan = FanSender(self.flow | 1, self.data_shape, need, self.cap_bps)

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
        if peer.state == State.WAITING or lacking >> bit & 1 or bit in self._ready:
            peer.idle_ps = NEVER
            return False
        if peer.idle_ps == NEVER:
            peer.idle_ps = peer.moved_ps = now_ps
        most_ps = CHECK_PS + self.proof.n_files * CHECK_PS_PER_FILE
        most_ps += self.data_shape.n_bytes * CHECK_PS_PER_BYTE
        is_over = now_ps - peer.idle_ps >= most_ps
        if now_ps - peer.moved_ps < STALL_PS and not is_over:
            return False
        self._on_end(bit, peer, State.FAILED, self._why_stuck(peer, is_over=is_over))
        return True

    def _why_stuck(self, peer: Peer, *, is_over: bool) -> str:
        if peer.other:
            got, want = peer.other.hex()[:16], self.proof.digest.hex()[:16]
            return f"done with BLAKE3 {got}, the source has {want}"
        if is_over:
            return "works on its disk without end"
        what = "looks at its disk" if peer.state == State.CHECKING else "has everything"
        return f"{what}, not ended in {STALL_S} s"

    def _question(self, cursor: int) -> Ask:
        return Ask(flow=self.flow, cursor=cursor, nonce=self.proof.nonce)

    def _ask(self, now_ps: int, out: list[PushEffect]) -> None:
        """Ask all who owe a word; give up who has been silent too long."""
        lacking = quiet = 0
        for fan in self.fans():
            lacking |= fan.lacking()
            quiet |= fan.lacking() if fan.is_quiet(now_ps) else 0
        asked = 0
        for bit, peer in self.peers.items():
            if peer.state in (State.VERIFIED, State.FAILED):
                asked |= int(peer.is_silent) << bit  # it may come back while others are served
                continue
            if now_ps - peer.heard_ps >= SILENT_PS and not lacking >> bit & 1:
                self._fail_silent(bit, f"silent for {(now_ps - peer.heard_ps) / 1e12:.1f} s")
                continue
            if self._is_stuck(now_ps, bit, peer, lacking):
                continue
            owes_word = (quiet | ~lacking) >> bit & 1 and bit not in self._ready
            if owes_word or peer.is_strange or now_ps - peer.heard_ps >= QUIET_PS:
                asked |= 1 << bit
        if asked:
            out.append(SendControl(self._question(0), asked))
        gap_ps = min(max(2 * self._ask_gap_ps, FIRST_ASK_PS), ASK_PS)
        self._ask_gap_ps = gap_ps if asked else 0


def _is_denied(now_ps: int, peer: Peer, denied_ps: int) -> bool:
    """Whether a receiver's words have denied for long enough what FEEDBACK claimed for it.

    The first such word may be older than the FEEDBACK, and have come by another way.
    """
    peer.denied_ps = min(denied_ps, now_ps)
    if now_ps - peer.denied_ps < DOUBT_PS:
        return False
    peer.denied_ps = NEVER
    return True
