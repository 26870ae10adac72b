"""Receipts of a push: a receiver gives one when it is asked, the sender checks and keeps them.

A receipt travels in the body of a REPORT of state DONE, sealed for the pair of ends, and only
in answer to an ASK for it. The nodes' drivers do this beside the machines of the push, which
need no clock of the wall.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from fanfold.errors import ConfigError
from fanfold.kernels.codes import DROP_BAD_MAC, DROP_NOT_BELIEVED
from fanfold.live.chance import draw_octets
from fanfold.live.clock import now_ps, unix_ns
from fanfold.push.attesting import NOT_ATTESTED, Verifier, challenge_of
from fanfold.push.author import Author
from fanfold.push.gate import Gate
from fanfold.push.manifest import Manifest, whole_digest
from fanfold.push.peer import State
from fanfold.push.result import PushResult
from fanfold.push.sender_role import SenderRole
from fanfold.push.sending import SendControl
from fanfold.push.session import Session
from fanfold.seals.keys import PublicKey
from fanfold.seals.pairs import PairContext, PairKeys
from fanfold.seals.primitives import NONCE_BYTES, derive, open_once, seal_once
from fanfold.seals.receipts import (
    SEAL_LABEL,
    Facts,
    Given,
    Labels,
    Receipt,
    ReceiptError,
    encode,
    give,
    read_given,
    receipt_of,
    verify,
)
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire.ask import WHAT_RECEIPT, Ask
from fanfold.wire.packet import Packet
from fanfold.wire.report import Report, ReportState

AGAIN_PS = 60 * PS_PER_MS
MOST_KEPT = 256
"""Receipts that a node gives the same when it is asked again."""
WAIT_PS = 3 * PS_PER_SECOND
"""Receipts that have not come so long after the end of a push are said to lack."""


class Desk:
    """A receiver's side.

    Args:
        node, bfr_id: of this receiver. labels: its own. software: BLAKE3 of what it runs.
        quote: what vouches for it, for a digest of what it is asked about.
    """

    def __init__(
        self,
        node: str,
        bfr_id: int,
        gate: Gate,
        name_of: Callable[[int], str],
        labels: Labels = (),
        software: Callable[[], bytes] = bytes,
        quote: Callable[[bytes], bytes] = lambda challenge: b"",
    ) -> None:
        self._node, self._bfr_id, self._gate, self._name_of = node, bfr_id, gate, name_of
        self.labels, self.software, self.quote = labels, software, quote
        self._given: dict[tuple[int, int, int], bytes] = {}

    def body(self, session: Session) -> bytes:
        """What a REPORT of a push that is in place carries; nothing where it was not signed."""
        keys, grant = self._gate.keys, session.grant
        signer = grant.signer if grant is not None else None
        incoming = session.incoming
        pairs = self._gate.pairs
        if pairs is None or keys is None or signer is None or incoming is None:
            return b""
        key = session.bfir_id, session.flow, session.nonce
        if key not in self._given:
            if len(self._given) >= MOST_KEPT:
                self._given.clear()
            manifest = incoming.manifest
            facts = Facts(
                self._name_of(session.bfir_id),
                session.bfir_id,
                signer,
                manifest.name,
                manifest.total_bytes,
                incoming.whole_digest(),
                session.flow,
                session.nonce,
            )
            quote = self.quote(challenge_of(facts.flow, facts.nonce, facts.digest))
            bare = Given(unix_ns(), self.labels, self.software(), quote, bytes(64))
            plain = give(keys, facts, self._node, self._bfr_id, bare)
            context = PairContext(session.flow, session.nonce, session.bfir_id, self._bfr_id)
            self._given[key] = sealed_for(pairs, signer, context, plain)
        return self._given[key]


def sealed_for(pairs: PairKeys, other: PublicKey, context: PairContext, plain: bytes) -> bytes:
    """Bytes that only the other end of a pair can read; nothing where there is no key."""
    key = pairs.key(other, context)
    if not key:
        return b""
    nonce = draw_octets(NONCE_BYTES)
    return nonce + seal_once(derive(key, SEAL_LABEL), nonce, plain)


def opened_of(pairs: PairKeys, other: PublicKey, context: PairContext, body: bytes) -> bytes:
    """What the other end of a pair sealed.

    Raises:
        ReceiptError: it is not of that end, or not for this push.
    """
    key = pairs.key(other, context)
    nonce, rest = body[:NONCE_BYTES], body[NONCE_BYTES:]
    plain = open_once(derive(key, SEAL_LABEL), nonce, rest) if key else b""
    if not plain:
        raise ReceiptError("replayed or forged: it is not sealed for this push")
    return plain


class ReceiptRole:
    """A sender's side: asks all that have the push for their receipts, and checks them.

    Args:
        role: of the push that has ended. facts: of it. names: of receivers, by BFR-id.
    """

    def __init__(
        self, role: SenderRole, author: Author, facts: Facts, names: Mapping[int, str]
    ) -> None:
        self._role, self._author, self._facts, self._names = role, author, facts, names
        self._pairs = PairKeys(author.keys, is_sender=True)
        self.found: dict[int, Receipt] = {}
        self.refused: dict[int, str] = {}
        self._due_ps = 0

    def on_packet(self, now: int, packet: Packet, port: int) -> None:
        """REPORTs that carry a receipt; other words are not waited for any more."""
        report = packet.message
        if not isinstance(report, Report) or report.bfr_id not in self._names:
            return
        if report.state != ReportState.DONE or not report.body:
            return
        drops = self._role.event_loop.node.counters.drops
        if not self._author.is_from(report):
            drops[DROP_BAD_MAC] += 1
            return
        try:
            self.found[report.bfr_id] = self._read(report)
        except ReceiptError as error:
            self.refused[report.bfr_id] = str(error)
            drops[DROP_NOT_BELIEVED] += 1

    def _read(self, report: Report) -> Receipt:
        bfr_id, facts = report.bfr_id, self._facts
        context = PairContext(facts.flow, facts.nonce, facts.bfir_id, bfr_id)
        error = ReceiptError("of an unknown key")
        for row in self._author.trust[self._names[bfr_id]]:
            try:
                given = read_given(opened_of(self._pairs, row.key, context, report.body))
                receipt = receipt_of(facts, self._names[bfr_id], bfr_id, row.key, given)
                verify(receipt, self._author.trust)
            except ReceiptError as failed:
                error = failed
            else:
                return receipt
        raise error

    def on_events(self, now: int) -> None:
        """A sender follows no flow."""
        self._role.event_loop.node.collect.n_events[0] = 0

    def on_link(self, now: int, octets: bytes, port: int) -> None:
        """Nothing of neighbours concerns a push."""

    def on_timer(self, now: int) -> None:
        """Ask those whose receipt has not come."""
        lacking = [bfr_id for bfr_id in self._names if bfr_id not in self.found]
        if now < self._due_ps or not lacking:
            return
        self._due_ps = now + AGAIN_PS
        ask = Ask(self._facts.flow, 0, self._facts.nonce, WHAT_RECEIPT)
        for bfr_id in lacking:
            way = self._role.machine.peers[bfr_id - 1].next_way()
            self._role.send_control(SendControl(ask, 1 << bfr_id - 1, way))

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do."""
        return self._due_ps

    def run(self) -> None:
        """Until all have come, or for WAIT_PS."""
        loop, until_ps = self._role.event_loop, now_ps() + WAIT_PS
        before, loop.role = loop.role, self
        try:
            while len(self.found) < len(self._names) and now_ps() < until_ps:
                loop.step(until_ps)
        finally:
            loop.role = before

    def lacking(self) -> dict[int, str]:
        """Whose receipt has not come, and why."""
        silent = "gave none"
        return {i: self.refused.get(i, silent) for i in self._names if i not in self.found}


class Job(Protocol):
    """A push, as far as its receipts speak of it."""

    fabric: Fabric
    source: str
    author: Author | None
    manifest: Manifest
    flow: int
    nonce: int


class Receipts:
    """The receipts of one push.

    Args:
        folder: where they are kept, None: nowhere. verifier: judges what they state.
    """

    def __init__(self, folder: Path | None, verifier: Verifier | None = None) -> None:
        self._folder, self._verifier = folder, verifier
        self._files: dict[str, Path] = {}
        self._verdicts: dict[str, str] = {}
        self._lacking: dict[str, str] = {}

    def collect(self, job: Job, role: SenderRole) -> None:
        """Ask all that have a push for theirs, and keep what is sound."""
        author = job.author
        if author is None:
            return
        by_id = job.fabric.by_bfr_id
        peers = role.machine.peers.items()
        names = {b + 1: by_id[b + 1].name for b, p in peers if p.state == State.VERIFIED}
        facts = Facts(
            job.source,
            author.bfir_id,
            author.keys.public,
            job.manifest.name,
            job.manifest.total_bytes,
            whole_digest(job.manifest),
            job.flow,
            job.nonce,
        )
        asking = ReceiptRole(role, author, facts, names)
        asking.run()
        for bfr_id, receipt in asking.found.items():
            if self._folder is not None:
                self._files[names[bfr_id]] = keep(self._folder, receipt)
            if self._verifier is not None:
                self._verdicts[names[bfr_id]] = self._verifier.judge(receipt).text
        self._lacking = {names[i]: why for i, why in asking.lacking().items()}

    def into(self, result: PushResult) -> PushResult:
        """A push's result with the files of its receipts, and notes on those that lack."""
        rows = [
            msgspec.structs.replace(
                row,
                receipt=str(self._files.get(row.id, "")),
                attested=self._verdicts.get(row.id, NOT_ATTESTED),
            )
            for row in result.receivers
        ]
        notes = [f"{name}: receipt: {why}" for name, why in self._lacking.items()]
        return msgspec.structs.replace(
            result, receivers=rows, warnings=[*result.warnings, *notes]
        )


def require_folder(folder: Path) -> None:
    """Make the folder of receipts.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("--receipts", str(folder), "a folder that can be made") from error


def keep(folder: Path, receipt: Receipt) -> Path:
    """Write a receipt; where."""
    path = folder / f"{receipt.name}-{receipt.flow:08x}-{receipt.receiver}.json"
    path.write_bytes(encode(receipt))
    return path
