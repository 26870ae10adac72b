"""Whose pushes a receiver takes, and how it proves its own words.

Without a trust file a gate is open: any manifest is taken. With one a push needs the signature
of a key that is trusted for its sender; what that key may write, and how much, is looked at
when the manifest is read, and so is whether it is older than what stands there. Refusals are
counted by their reason, told to the sender, and forgotten soon: the next one may be the true
sender's.
"""

from collections.abc import Callable

import msgspec

from fanfold.errors import WireError
from fanfold.kernels.codes import DROP_BAD_SIGNATURE, DROP_NOT_TRUSTED, DROP_REPLAYED
from fanfold.push.author import plain_of, wrap_info
from fanfold.push.envelope import OPEN, SEALED, Envelope, signed_close
from fanfold.push.incoming import Incoming
from fanfold.push.manifest import Manifest
from fanfold.push.placed import Placed
from fanfold.push.target import StoreError
from fanfold.seals.keys import KeyPair, PublicKey
from fanfold.seals.pairs import PairContext, PairKeys
from fanfold.seals.primitives import TAG_BYTES, BlockCipher, is_signed, unwrap_key
from fanfold.seals.trust import Trust, Trusted, is_below
from fanfold.topo.labels import Pairs, parse_rule
from fanfold.wire.close import Close
from fanfold.wire.report import Report, ReportError


class RefusedError(StoreError):
    """A push that is not taken. drop: under which reason it is counted."""

    def __init__(self, drop: int, text: str) -> None:
        super().__init__(ReportError.REFUSED, text)
        self.drop = drop


class Grant(msgspec.Struct, frozen=True):
    """What a push was let in by.

    signer: whose signature is right. trusted: its row, None where the gate is open. cipher: of
    a sealed push. epoch: when it was signed, or began. takes_over: it waits for nobody.
    """

    signer: PublicKey | None = None
    trusted: Trusted | None = None
    cipher: BlockCipher | None = None
    epoch: int = 0
    takes_over: bool = False

    @property
    def label(self) -> str:
        """For the log."""
        return self.trusted.label if self.trusted is not None else ""


class Gate:
    """The keys of one receiver.

    Args:
        bfr_id: of this node. keys: its own, None without. trust: None: every sender is.
        node_of: name of a BFIR. placed: what was put here last.
    """

    def __init__(
        self,
        bfr_id: int = 0,
        keys: KeyPair | None = None,
        trust: Trust | None = None,
        node_of: Callable[[int], str] = "BFR-id {}".format,
        placed: Placed | None = None,
    ) -> None:
        self._bfr_id, self._node_of = bfr_id, node_of
        self.use(keys, trust)
        self._placed = placed or Placed()
        self.labels: Pairs = ()
        """Of this node, as an operator signed them."""

    def use(self, keys: KeyPair | None, trust: Trust | None) -> None:
        """Take other keys from now on: its own, and whom it trusts."""
        self.keys, self.trust = keys, trust
        self.pairs = PairKeys(keys, is_sender=False) if keys is not None else None

    def loss(self, grant: Grant | None, bfir_id: int) -> RefusedError | None:
        """Why a push that was let in before would not be now."""
        if self.trust is None or grant is None:
            return None
        if grant.signer is None:
            return RefusedError(DROP_NOT_TRUSTED, "the manifest is not signed (push --sign)")
        try:
            self._trusted(grant.signer, bfir_id)
        except RefusedSignerError as error:
            return error
        return None

    @property
    def is_open(self) -> bool:
        """Whether any sender's pushes are taken."""
        return self.trust is None

    def admit(self, envelope: Envelope, flow: int, bfir_id: int) -> Grant:
        """Look at a signature, and open what is sealed.

        Raises:
            RefusedError: why it is not taken.
        """
        if envelope.form == OPEN:
            if not self.is_open:
                raise RefusedError(DROP_NOT_TRUSTED, "the manifest is not signed (push --sign)")
            return Grant(epoch=envelope.epoch, takes_over=envelope.takes_over)
        if not envelope.is_signed_for(flow, bfir_id):
            raise RefusedError(DROP_BAD_SIGNATURE, "the signature is wrong")
        signer = envelope.signer
        assert signer is not None
        trusted = self._trusted(signer, bfir_id)
        cipher = self._cipher(envelope, flow, bfir_id) if envelope.form == SEALED else None
        return Grant(signer, trusted, cipher, envelope.epoch, envelope.takes_over)

    def refusal(self, error: WireError | RefusedError) -> StoreError:
        """Why a push is not taken, as its sender is told; to forgers a gate says no more."""
        if isinstance(error, RefusedError):
            return error
        if self.is_open:
            return StoreError(ReportError.BAD_MANIFEST, str(error))
        return RefusedError(DROP_BAD_SIGNATURE, str(error))

    def judge(self, grant: Grant, manifest: Manifest) -> None:
        """Look at what a manifest would write.

        Raises:
            RefusedError: more than its sender may, or older than what stands there.
        """
        full_bytes = manifest.stride * manifest.n_psn
        if (manifest.chunk_bytes < full_bytes) != (grant.cipher is not None):
            text = f"chunk_bytes {manifest.chunk_bytes} in packets of {full_bytes}"
            raise StoreError(ReportError.BAD_MANIFEST, text)
        self._judge_way(manifest)
        trusted = grant.trusted
        if trusted is None or grant.signer is None:
            return
        outside = first_outside(manifest, trusted.prefix)
        if outside is not None:
            text = f"{outside!r} is not below {trusted.prefix!r}, where its key may write"
            raise RefusedError(DROP_NOT_TRUSTED, text)
        if trusted.max_bytes is not None and manifest.total_bytes > trusted.max_bytes:
            text = f"{manifest.total_bytes} bytes, its key may write {trusted.max_bytes}"
            raise RefusedError(DROP_NOT_TRUSTED, text)
        self.require_newest(grant, manifest)

    def _judge_way(self, manifest: Manifest) -> None:
        """Look at where the bytes may go: a rule that its own labels break ends a push here."""
        if not manifest.only_through:
            return
        broken = parse_rule(manifest.only_through, "only_through").breach(self.labels)
        if broken:
            text = f"its bytes may go to {manifest.only_through} only, and here is {broken}"
            raise RefusedError(DROP_NOT_TRUSTED, text)

    def require_newest(self, grant: Grant, manifest: Manifest) -> None:
        """See that nothing that was signed as late stands where a push would put its own.

        Raises:
            RefusedError: a replay, or an older push.
        """
        if grant.trusted is None or grant.signer is None or self._is_again(grant, manifest):
            return
        if self._placed.is_stale(grant.signer, manifest, grant.epoch):
            text = "it was signed no later than what stands there: a replay, or a wrong clock"
            raise RefusedError(DROP_REPLAYED, text)

    def is_settled(self, grant: Grant, incoming: Incoming | None) -> bool:
        """Whether this very push was put in place before the node started, and stands there.

        Raises:
            RefusedError: it does not stand there any more: none of it is taken a second time.
        """
        if incoming is None or not self._is_again(grant, incoming.manifest):
            return False
        if not incoming.is_in_place and grant.signer is not None:
            self._placed.settle(grant.signer, incoming.manifest)
            raise RefusedError(DROP_REPLAYED, "it was put in place before, and changed since")
        return True

    def on_placed(self, grant: Grant, manifest: Manifest) -> None:
        """A push is in place: none that was signed before goes there any more."""
        if grant.trusted is not None and grant.signer is not None:
            self._placed.note(grant.signer, manifest, grant.epoch)

    def vouched(self, report: Report, bfir_id: int, grant: Grant | None) -> Report:
        """A REPORT with the MAC of this node and its sender, where both have keys."""
        other = grant.signer if grant is not None else self._newest_of(bfir_id)
        if self.pairs is None or other is None or report.nonce == 0:
            return report
        context = PairContext(report.flow, report.nonce, bfir_id, self._bfr_id)
        mac = self.pairs.mac(other, context, plain_of(report))
        return msgspec.structs.replace(report, mac=mac)

    def may_close(self, close: Close, bfir_id: int, grant: Grant | None, nonce: int) -> bool:
        """Whether a CLOSE is of the sender of a push."""
        known = [one.key for one in (self.trust or {}).get(self._node_of(bfir_id), ())]
        if grant is not None and grant.signer is not None:
            known = [grant.signer]
        if not known:
            return True
        if nonce not in (0, close.nonce):
            return False
        message = signed_close(close, bfir_id)
        return any(is_signed(key.signing, close.signature, message) for key in known)

    def _trusted(self, signer: PublicKey, bfir_id: int) -> Trusted | None:
        """The row of a signer; None where the gate is open."""
        if self.trust is None:
            return None
        sender = self._node_of(bfir_id)
        for rows in self.trust.values():
            for row in rows:
                if row.key != signer:
                    continue
                if row.node != sender:
                    text = f"the key of {row.node} signs for {sender}"
                    raise RefusedSignerError(signer, text)
                if row.is_over:
                    text = f"the key of {sender} ended ({row.until})"
                    raise RefusedSignerError(signer, text)
                if not row.is_sender:
                    raise RefusedSignerError(signer, f"{sender} may not push here")
                return row
        raise RefusedSignerError(signer, f"signature of an unknown key {signer.short}")

    def _is_again(self, grant: Grant, manifest: Manifest) -> bool:
        if grant.trusted is None or grant.signer is None:
            return False
        return self._placed.is_again(grant.signer, manifest, grant.epoch)

    def _newest_of(self, bfir_id: int) -> PublicKey | None:
        rows = (self.trust or {}).get(self._node_of(bfir_id), ())
        return rows[-1].key if rows else None

    def _cipher(self, envelope: Envelope, flow: int, bfir_id: int) -> BlockCipher:
        if self.keys is None:
            raise RefusedError(DROP_NOT_TRUSTED, "it is sealed, and this node has no keys")
        info = wrap_info(PairContext(flow, envelope.nonce, bfir_id, self._bfr_id))
        for wrapped in envelope.wraps_for(self._bfr_id):
            content_key = unwrap_key(self.keys.agreement, wrapped, info)
            if content_key:
                return BlockCipher(content_key)
        assert envelope.signer is not None
        raise RefusedSignerError(envelope.signer, "it is sealed, and not for this key")


class RefusedSignerError(RefusedError):
    """A push of somebody whose signature is right; it is told so by its own key."""

    def __init__(self, signer: PublicKey, text: str) -> None:
        super().__init__(DROP_NOT_TRUSTED, text)
        self.signer = signer


def open_manifest(grant: Grant, envelope: Envelope, flow: int) -> bytes:
    """The encoded manifest of an envelope that was let in.

    Raises:
        RefusedError: it is not what was sealed.
    """
    if grant.cipher is None:
        return envelope.body
    room = bytearray(max(len(envelope.body) - TAG_BYTES, 0))
    if grant.cipher.open(flow, 0, memoryview(envelope.body), memoryview(room)) < 0:
        raise RefusedError(DROP_BAD_SIGNATURE, "the sealed manifest does not open")
    return bytes(room)


def first_outside(manifest: Manifest, prefix: str) -> str | None:
    """The first path that is not below a prefix."""
    if manifest.place:
        return None if is_below(manifest.place, prefix) else manifest.place
    paths = [entry.path for entry in manifest.entries]
    paths += [folder.path for folder in manifest.folders]
    return next((path for path in paths if not is_below(path, prefix)), None)
