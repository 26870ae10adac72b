"""One push as its receiver remembers it, and what a driver lends to all of them."""

from collections.abc import Callable

from fanfold.push.envelope import NO_NONCE
from fanfold.push.epochs import NO_EPOCH, Epochs, Holder
from fanfold.push.gate import Gate, Grant
from fanfold.push.hands import Hands, OwnHands, Work
from fanfold.push.opening import Opening
from fanfold.push.store import Incoming
from fanfold.seals.primitives import BlockCipher
from fanfold.units import NEVER
from fanfold.wire.report import Report, ReportState

MAX_TEXT_BYTES = 480
LOOKING = (ReportState.CHECKING, ReportState.FINISHING)
"""States in which a receiver is busy with its disk."""


class Session:
    """One push being received."""

    def __init__(self, now_ps: int, bfir_id: int, flow: int) -> None:
        self.bfir_id, self.flow = bfir_id, flow
        self.start_ps = now_ps
        self.heard_ps = now_ps
        self.state = ReportState.UNKNOWN
        self.port = 1
        self.flow_port = 0
        self.entropy = 0  # of words to the sender
        self.bfir_addr = 0
        self.follow = {0: -1, 1: -1}  # manifest, data: rows of collect.follow
        self.parts: dict[int, bytes] = {}
        self.n_manifest_bytes = 0
        self.incoming: Incoming | None = None
        self.opening: Opening | None = None
        self.waiting: Opening | None = None  # for another push of the same
        self.work: Work | None = None  # what puts the files in place
        self.digest = bytes(32)
        self.nonce = NO_NONCE
        self.n_steps = 0  # of work on the disk
        self.grant: Grant | None = None  # by what it was let in
        self.title = ""  # the name that it takes
        self.holder = Holder(NO_EPOCH)
        self.refused_ps: int = NEVER  # since when it is refused
        self.error = 0
        self.text = ""

    def report(
        self, now_ps: int, bfr_id: int, cursor: int, nonce: int, have_map: bytes
    ) -> Report:
        """Where this push stands, in the words of the wire."""
        state, body = self.state, have_map
        if state in (ReportState.FAILED, ReportState.CHECKING):
            body = self.text.encode()[:MAX_TEXT_BYTES].decode("utf-8", "ignore").encode()
        if state == ReportState.UNKNOWN:
            state, cursor = ReportState.CHECKING, 0  # the manifest is on its way
        elif state in LOOKING:
            cursor = 1 + self.n_steps + (self.work.n_steps if self.work is not None else 0)
        return Report(
            state,
            bfr_id,
            self.flow,
            cursor=cursor,
            nonce=nonce,
            n_have=self.incoming.n_have if self.incoming is not None else 0,
            error=self.error,
            elapsed_us=(now_ps - self.start_ps) // 1_000_000,
            digest=self.digest,
            body=body,
        )

    def label(self, sender: str) -> str:
        """What it is called in a log: name and sender."""
        known = self.incoming or self.waiting
        name = known.name if known else self.title or "?"
        if self.grant is not None and self.grant.label:
            sender += f" ({self.grant.label})"
        return f"{name!r} from {sender}"

    @property
    def cipher(self) -> BlockCipher | None:
        """What opens its blocks, of a sealed push."""
        return self.grant.cipher if self.grant is not None else None

    def opened(self, block: int, view: memoryview) -> memoryview:
        """What a block holds, opened where it lies; nothing where it is not as sealed."""
        if self.cipher is None:
            return view
        return view[: max(self.cipher.open(self.flow | 1, block, view, view), 0)]

    def is_elsewhere(self, *, is_aside: bool) -> bool:
        """Whether its work is not to be asked for at once."""
        if self.waiting is not None or self.is_behind:
            return True
        return is_aside and bool(self.work or self.opening)

    @property
    def is_behind(self) -> bool:
        """It has all, and waits until another push of its name is in place."""
        return self.state == ReportState.FINISHING and self.work is None


class Outside:
    """What a driver lends: hands, names of hosts, an ear for what people should know.

    way_back: (BFIR-id, entropy of its packet) -> entropy of a word to it. gate: whose pushes
    are taken. epochs: the newest push of each name.
    """

    def __init__(
        self,
        hands: Hands | None = None,
        name_of: Callable[[int], str] = "BFR-id {}".format,
        tell: Callable[[str], None] = lambda line: None,
        way_back: Callable[[int, int], int] = lambda bfir_id, entropy: entropy,
        gate: Gate | None = None,
        epochs: Epochs | None = None,
    ) -> None:
        self.hands: Hands = hands or OwnHands()
        self.name_of, self.tell, self.way_back = name_of, tell, way_back
        self.gate = gate or Gate()
        self.epochs = epochs or Epochs()
