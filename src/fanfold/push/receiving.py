"""The receiving end of pushes: manifest, look at the disk, collect, verify, flip, report.

A machine around the arrays that ``collect_pass`` fills: events in, packets out. A chunk is
acknowledged only after its BLAKE3 held and its bytes were given to the file system.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from fanfold.errors import WireError
from fanfold.kernels import collect as c
from fanfold.kernels.codes import DROP_BAD_SIGNATURE, DROP_CORRUPT_CHUNK, DROP_UNKNOWN_FLOW
from fanfold.kernels.due import due_reports
from fanfold.kernels.jit import bind
from fanfold.kernels.slots import NEVER_PS
from fanfold.kernels.speak import WHOLE_ROW
from fanfold.kernels.state import I64, U8, Rows
from fanfold.push.envelope import NO_NONCE, is_sound, unwrap
from fanfold.push.epochs import Holder, title_of
from fanfold.push.follows import Follows, block_bytes
from fanfold.push.gate import Grant, RefusedError, RefusedSignerError, open_manifest
from fanfold.push.manifest import MAX_MANIFEST_BYTES, Manifest
from fanfold.push.opening import Opening
from fanfold.push.quotas import OVER, excess, idlest, is_full, larger_manifest, who_gives_way
from fanfold.push.rivals import Rivals, TakenOverError
from fanfold.push.sending import SLICE_BYTES
from fanfold.push.session import LOOKING, Outside, Session
from fanfold.push.store import Incoming, PushOpenError, Store, StoreError
from fanfold.push.voice import Voice
from fanfold.seals.primitives import TAG_BYTES
from fanfold.wire.ask import Ask
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.packet import Packet
from fanfold.wire.report import Report, ReportError, ReportState

MANIFEST_BLOCKS = 4096
"""Blocks a manifest may take; its bytes are bounded by MAX_MANIFEST_BYTES."""
AGAIN_PS = 60_000_000_000
"""Gaps are reported again after this long without a repair."""
IDLE_PS = 30_000_000_000_000
"""A push whose sender says nothing for this long is let go; verified chunks stay on disk."""
LOOK_PS = 1_000_000_000_000
"""How often pushes are looked at for that."""
CHECK_BYTES = 8 << 20
UNKNOWN_PS = 100_000_000_000
REFUSED_PS = 1_000_000_000_000
"""A push that was refused is forgotten after this long: the next may be of the true sender."""
AGAIN_OPEN_PS = 100_000_000_000
"""How often a push that waits for another one of the same looks whether that ended."""

SendUp = Callable[[Session, U8], None]
"""(push, FEEDBACK packet)"""


class PushReceiver:
    """All pushes one BFER takes part in.

    Args:
        bfr_id, addr: this BFER. collect, node_row, drops: arrays of its node.
        n_words: words of a BitString. store: where files go. outside: what the driver lends.
    """

    def __init__(
        self,
        bfr_id: int,
        addr: int,
        collect: c.Collect,
        node_row: Rows,
        drops: I64,
        n_words: int,
        store: Store,
        outside: Outside | None = None,
    ) -> None:
        self.bfr_id, self.addr = bfr_id, addr
        self.collect, self.node_row, self.drops = collect, node_row, drops
        self.store = store
        self.outside = outside or Outside()
        self.sessions: dict[tuple[int, int], Session] = {}
        self._follows = Follows(collect)
        self._rivals = Rivals(self.outside.epochs, self.outside.name_of, self.fail)
        self._voice = Voice(bfr_id, collect, node_row, n_words)
        self._due = np.zeros(64, np.int64)
        self._unknown_ps: dict[tuple[int, int], int] = {}
        self._look_ps = self.n_feedback = 0

    def on_unknown(self, now_ps: int, packet: Packet, port: int, reply: "Reply") -> bool:
        """DATA of a flow nobody follows. True: it is followed now, look at the block again."""
        message = packet.message
        flow = getattr(message, "flow", 0)
        key = (packet.header.bfir_id, flow & ~1)
        session = self.sessions.get(key)
        if session is not None and session.state in (ReportState.DONE, ReportState.FAILED):
            return False
        if flow & 1 or (session is not None and session.follow[0] >= 0):
            last = self._unknown_ps.get(key, -UNKNOWN_PS)
            if now_ps - last >= UNKNOWN_PS:
                if len(self._unknown_ps) > 256:
                    self._unknown_ps.clear()
                self._unknown_ps[key] = now_ps
                reply(port, packet, Report(ReportState.UNKNOWN, self.bfr_id, key[1]))
            return False
        if not self._make_room(now_ps, key[0]):
            self.drops[DROP_UNKNOWN_FLOW] += 1
            return False
        session = Session(now_ps, *key)
        session.port, session.flow_port = port, packet.inner.sport
        session.bfir_addr = packet.inner.src
        session.entropy = self.outside.way_back(key[0], packet.header.entropy)
        if not self._follows.begin(session, 0, flow, MANIFEST_BLOCKS):
            return False
        self.sessions[key] = session
        return True

    def on_events(self, now_ps: int, send_up: SendUp) -> None:
        """Blocks that are whole, and whole blocks that are asked about again."""
        n = int(self.collect.n_events[0])
        for kind, what, block in self.collect.events[:n].tolist():
            if kind == c.EVENT_WHOLE:
                self._on_whole(now_ps, what, send_up)
            elif kind == c.EVENT_AGAIN:
                found = self._follows.by_row.get(what)
                if found is not None and self._follows.has(what, block):
                    self._say(found[0], found[1], block, WHOLE_ROW, send_up)
        self.collect.n_events[0] = 0

    def on_ask(self, now_ps: int, packet: Packet, ask: Ask, port: int, reply: "Reply") -> None:
        """The sender wants to know where this receiver stands."""
        session = self.sessions.get((packet.header.bfir_id, ask.flow))
        if session is None:
            bare = Report(ReportState.UNKNOWN, self.bfr_id, ask.flow, nonce=ask.nonce)
            report = self.outside.gate.vouched(bare, packet.header.bfir_id, None)
        else:
            session.heard_ps = now_ps
            report = self._report(now_ps, session, ask.cursor, ask.nonce)
        reply(port, packet, report)

    def on_close(self, packet: Packet, close: Close) -> None:
        """The push is over; what is verified stays for the next one, unless none can come."""
        session = self.sessions.get((packet.header.bfir_id, close.flow))
        if session is None:
            return
        gate, bfir_id = self.outside.gate, session.bfir_id
        is_refused = session.error == ReportError.REFUSED  # nothing is lost with it
        known = close, bfir_id, session.grant, session.nonce
        if not is_refused and not gate.may_close(*known):
            self.drops[DROP_BAD_SIGNATURE] += 1
            return
        self._end(session, is_gone=close.reason == CloseReason.GONE)

    def on_timer(self, now_ps: int, send_up: SendUp) -> list[Session]:
        """Report gaps that are due; look at disks; let idle pushes go.

        Returns:
            Sessions whose state changed on the way: their sender is to be told.
        """
        n = self._due_reports(self.collect, now_ps, AGAIN_PS, self._due)
        for r in self._due[:n]:
            row = self.collect.blocks[r]
            session, which = self._follows.by_row[int(row["follow"])]
            self._say(session, which, int(row["block"]), int(r), send_up)
        changed = []
        for session in list(self.sessions.values()):
            if session.state in LOOKING and self._check(now_ps, session):
                changed.append(session)
            if session.error == ReportError.REFUSED:
                session.refused_ps = min(session.refused_ps, now_ps)
                if now_ps - session.refused_ps >= REFUSED_PS:
                    self._end(session)
        if now_ps >= self._look_ps:
            was_there = now_ps < self._look_ps + LOOK_PS
            self._look_ps = now_ps + LOOK_PS
            if was_there:  # a node that was stopped looks again when it has heard what waits
                self._end_idle(now_ps)
        return changed

    def _end_idle(self, now_ps: int) -> None:
        for session in list(self.sessions.values()):
            if now_ps - self._follows.heard_ps(session) > IDLE_PS:
                self._end(session)

    def deadline_ps(self, now_ps: int) -> int:
        """When ``on_timer`` has something to do."""
        looking = [s for s in self.sessions.values() if s.state in LOOKING]
        is_aside = self.outside.hands.is_aside
        if any(not s.is_elsewhere(is_aside=is_aside) for s in looking):
            return now_ps
        if looking:
            return now_ps + AGAIN_OPEN_PS
        return now_ps + 1_000_000_000_000 if self.sessions else NEVER_PS

    def report_of(self, now_ps: int, session: Session) -> Report:
        """Where a push stands now."""
        return self._report(now_ps, session, 0, session.nonce)

    def close_all(self) -> None:
        """Let every push go; verified chunks stay on disk."""
        for session in list(self.sessions.values()):
            self._end(session)

    # Flows.

    def _end(self, session: Session, *, is_gone: bool = False) -> None:
        """Forget a push; work on it that has begun goes on, and closes it."""
        for which in (0, 1):
            self._follows.end(session, which)
        if session.opening is not None:
            session.opening.drop()
        incoming = session.incoming
        if incoming is not None and session.work is None:
            if is_gone and session.state != ReportState.FAILED:
                self._tell(session, "its source changed: what came of it is removed")
                self.outside.hands.take(incoming.discard_steps()).is_over()
            else:
                incoming.close()
        self.sessions.pop((session.bfir_id, session.flow), None)

    def _make_room(self, now_ps: int, bfir_id: int) -> bool:
        """Whether there is a place for a new push of a sender; another one may give way."""
        sessions = self.sessions.values()
        if not is_full(sessions, bfir_id):
            return True
        found = who_gives_way(now_ps, sessions, bfir_id, self._follows.heard_ps)
        if found is None:
            return False
        self._end(found)
        return True

    def _require_quota(self, now_ps: int, session: Session, incoming: Incoming) -> None:
        """Let a sender's idle pushes go, the idlest first, until this one fits beside them."""
        while error := excess(self.sessions.values(), session, incoming, self.store.max_bytes):
            idle = idlest(now_ps, self.sessions.values(), session, self._follows.heard_ps)
            if idle is None:
                raise error
            self._end(idle)

    # Blocks.

    def _on_whole(self, now_ps: int, r: int, send_up: SendUp) -> None:
        row = self.collect.blocks[r]
        if row["state"] != c.WHOLE:
            return
        session, which = self._follows.by_row[int(row["follow"])]
        block = int(row["block"])
        follow = self.collect.follow[int(row["follow"])]
        session.heard_ps = now_ps
        n = block_bytes(row, follow)
        view = self.collect.room[r, :n].data
        kept = (
            self._keep_manifest(session, block, view)
            if which == 0
            else self._keep(session, block, view)
        )
        if not kept:
            self.drops[DROP_CORRUPT_CHUNK] += 1
            row["state"], row["have"], row["polled"] = c.FILLING, 0, 1
            row["report_ps"] = now_ps + AGAIN_PS
            self._say(session, which, block, r, send_up)
            return
        row["state"] = c.FREE
        if session.state != ReportState.FAILED:
            self.collect.have[int(follow["map_at"]) + block] = 1
            self._say(session, which, block, WHOLE_ROW, send_up)
        self._advance(now_ps, session, which)

    def _keep_manifest(self, session: Session, block: int, view: memoryview) -> bool:
        """Keep a block of a manifest, unless all manifests together become too large."""
        if session.state == ReportState.FAILED:
            return True
        session.n_manifest_bytes += len(view)
        sessions = self.sessions.values()
        while larger := larger_manifest(sessions, session, MAX_MANIFEST_BYTES):
            self._end(larger)
        if sum(s.n_manifest_bytes for s in sessions) <= MAX_MANIFEST_BYTES:
            session.parts[block] = bytes(view)
            return True
        session.parts, session.n_manifest_bytes = {}, 0
        what = f"manifests of {MAX_MANIFEST_BYTES} bytes in all are allowed"
        self.fail(session, StoreError(ReportError.TOO_LARGE, what))
        return True

    def _keep(self, session: Session, block: int, view: memoryview) -> bool:
        if session.incoming is None:
            return True
        try:
            return session.incoming.write_chunk(block, session.opened(block, view))
        except StoreError as error:
            self.fail(session, error)
            return True

    def _advance(self, now_ps: int, session: Session, which: int) -> None:
        if which == 0:
            self._try_manifest(now_ps, session)
        elif session.incoming is not None and session.incoming.is_complete:
            try:
                self._begin_finish(session)
            except StoreError as error:
                self.fail(session, error)

    def _try_manifest(self, now_ps: int, session: Session) -> None:
        last = int(self.collect.follow[session.follow[0]]["n_blocks"])
        if last == 0 or len(session.parts) < last or session.incoming is not None:
            return
        whole = b"".join(session.parts[b] for b in sorted(session.parts))
        session.parts = {}
        gate = self.outside.gate
        if gate.is_open and not is_sound(whole):  # unknown here, so that it is sent again
            self.drops[DROP_CORRUPT_CHUNK] += 1
            self._tell(session, "its manifest came damaged")
            self._end(session)
            return
        try:
            envelope = unwrap(whole)
            session.nonce = envelope.nonce
            grant = gate.admit(envelope, session.flow, session.bfir_id)
        except (WireError, RefusedError) as error:
            self._refuse(session, gate.refusal(error))
            return
        session.grant = grant
        session.state = ReportState.CHECKING
        session.holder = Holder(grant.epoch, session.bfir_id, envelope.nonce)

        def judge(manifest: Manifest) -> None:
            gate.judge(grant, manifest)
            session.title = title_of(manifest)
            self._rivals.require_newest(session.title, session.holder)

        session.opening = Opening(
            self.store,
            self.outside.hands,
            lambda: open_manifest(grant, envelope, session.flow),
            judge=judge,
        )
        if not self.outside.hands.is_aside:
            self._check(now_ps, session)

    def _refuse(self, session: Session, error: StoreError) -> None:
        """Nothing was let in; the MAC of such a word is for the signer alone, if it is one."""
        session.grant = Grant(error.signer if isinstance(error, RefusedSignerError) else None)
        self.fail(session, error)

    def _check_opening(self, now_ps: int, session: Session, opening: Opening) -> None:
        try:
            if not opening.is_over():
                return
        except PushOpenError:
            session.opening, session.waiting = None, opening
            self._wait(now_ps, session, opening)
            return
        except WireError as error:
            raise StoreError(ReportError.BAD_MANIFEST, str(error)) from error
        session.opening = None
        self._open(now_ps, session, opening.take())

    def _open(self, now_ps: int, session: Session, incoming: Incoming) -> None:
        session.incoming, session.text = incoming, ""
        self._require_quota(now_ps, session, incoming)
        tag_bytes = TAG_BYTES if session.cipher is not None else 0
        self._follows.begin_data(session, incoming, tag_bytes)
        self._rivals.take(session, list(self.sessions.values()))
        n_bytes, n = incoming.manifest.total_bytes, incoming.layout.n_chunks
        self._tell(session, f"begins, {n_bytes} bytes in {n} blocks")

    def _same_push(self, now_ps: int, session: Session, key: bytes) -> Session | None:
        """The session that has the same push open; one that has to gives way to this one."""
        for other in list(self.sessions.values()):
            if other.incoming is None or other.incoming.key != key:
                continue
            if other.state in OVER:  # its files are in place, or it failed: nothing is locked
                continue
            if not self._rivals.lets_go(other, session, now_ps - self._follows.heard_ps(other)):
                return other
            self._rivals.lose(other, session)
        return None

    def _wait(self, now_ps: int, session: Session, waiting: Opening) -> None:
        """The same push is open: this one waits, and finds all in place, or goes on with it."""
        self._rivals.require_newest(session.title, session.holder)
        other = self._same_push(now_ps, session, waiting.key)
        who = self.outside.name_of(other.bfir_id) if other else "another one"
        text = f"waits: {who} is pushing the same here"
        if text != session.text:
            self._tell(session, text)
        session.text = text
        if other is None or other.incoming is None:
            session.waiting = None
            session.opening = Opening(self.store, self.outside.hands, known=waiting)
        else:
            work = other.work.n_steps if other.work is not None else 0
            session.n_steps = other.incoming.n_have + other.n_steps + work

    def _check(self, now_ps: int, session: Session) -> bool:
        try:
            if session.waiting is not None:
                self._wait(now_ps, session, session.waiting)
            elif session.opening is not None:
                self._check_opening(now_ps, session, session.opening)
            elif session.is_behind:
                self._begin_finish(session)
            elif session.work is not None:
                return self._check_work(session)
            else:
                return self._look(now_ps, session)
        except StoreError as error:
            self.fail(session, error)
            return True
        return False

    def _look(self, now_ps: int, session: Session) -> bool:
        assert session.incoming is not None
        session.n_steps += 1
        if not session.incoming.check_some(CHECK_BYTES):
            return False
        self._is_settled(session)
        self._follows.mark(session, session.incoming.have, session.incoming.layout.n_chunks)
        session.state = ReportState.READY
        self._advance(now_ps, session, 1)
        return True

    def _begin_finish(self, session: Session) -> None:
        """Put all in place by steps: the node answers meanwhile, and says how far it is."""
        if session.work is None and session.incoming is not None:
            session.state = ReportState.FINISHING
            if self._rivals.is_placing(session.title):
                return
            steps = session.incoming.finish_steps()
            if self._is_settled(session):
                steps = session.incoming.discard_steps()
            elif session.grant is not None:  # what was newer may have come in between
                self.outside.gate.require_newest(session.grant, session.incoming.manifest)
                self._rivals.require_newest(session.title, session.holder)
            session.work = self.outside.hands.take(steps)
            self._rivals.place(session.title, session.work)

    def _is_settled(self, session: Session) -> bool:
        grant, incoming = session.grant, session.incoming
        return grant is not None and self.outside.gate.is_settled(grant, incoming)

    def _check_work(self, session: Session) -> bool:
        assert session.work is not None
        assert session.incoming is not None
        if not session.work.is_over():
            return False
        if session.grant is not None:
            self.outside.gate.on_placed(session.grant, session.incoming.manifest)
        digest = session.incoming.whole_digest()
        session.digest = session.cipher.hide(digest) if session.cipher else digest
        session.state = ReportState.DONE
        n_bytes = session.incoming.manifest.total_bytes
        self._tell(session, f"verified and in place, {n_bytes} bytes")
        return True

    def fail(self, session: Session, error: StoreError) -> None:
        """End a push here; its sender is told at the next question, or by who calls this."""
        session.state = ReportState.FAILED
        session.error, session.text = int(error.code), str(error)
        if isinstance(error, RefusedError):
            self.drops[error.drop] += 1
        if isinstance(error, TakenOverError):
            session.digest = error.holder.encode()
        session.opening = session.waiting = None
        if session.incoming is not None:
            session.incoming.close()
        self._follows.end(session, 1)
        self._tell(session, f"failed: {error}")

    def _tell(self, session: Session, what: str) -> None:
        """One line for whoever reads the node's log."""
        who = session.label(self.outside.name_of(session.bfir_id))
        self.outside.tell(f"push {who}: {what}")

    # Words.

    @cached_property
    def _due_reports(self) -> Callable[..., int]:
        return bind(due_reports, self.collect, 0, AGAIN_PS, self._due)

    def _say(self, session: Session, which: int, block: int, r: int, send_up: SendUp) -> None:
        """FEEDBACK on one block: its gaps, or all of it when ``r`` is WHOLE_ROW."""
        f = session.follow[which]
        session.port = self._follows.port_of(f, r) or session.port  # by which the block came
        for packet in self._voice.words(f, block, r):
            send_up(session, packet)
            self.n_feedback += 1

    def _report(self, now_ps: int, session: Session, cursor: int, nonce: int) -> Report:
        incoming = session.incoming
        body = b""
        if session.state == ReportState.READY and incoming is not None and incoming.n_have:
            n = incoming.layout.n_chunks
            body = self._follows.have_slice(session, n, cursor, SLICE_BYTES)
        report = session.report(now_ps, self.bfr_id, cursor, nonce, body)
        if session.nonce not in (NO_NONCE, nonce):
            return report
        return self.outside.gate.vouched(report, session.bfir_id, session.grant)


Reply = Callable[[int, Packet, Report], None]
"""(port, packet answered, report)"""
