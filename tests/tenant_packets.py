"""Every kind of packet of the wire, in whichever tenant's sub-domain and name one asks for."""

from collections.abc import Iterator
from typing import NamedTuple

from fanfold.wire import bitstring as bs
from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.close import Close
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.fold import DOWN, UP, Fold, FoldWhat
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.kinds import Kind
from fanfold.wire.packet import Message, build
from fanfold.wire.report import Report, ReportState

BSL = 3
FLOW_PORT = 50_000
GROUP_PORT = 20_001
REPAIR = 4
STRIDE = 64


class Aim(NamedTuple):
    """Where packets pretend to belong.

    sub_domain, told: of the packet, and of a FEEDBACK's own BIFT-id. bfir_id, bits: in whose
    name, to whom. flow, block, group: of whom the packet speaks.
    """

    sub_domain: int
    bfir_id: int
    bits: int
    flow: int
    block: int = 0
    group: int = 0
    told: int = -1
    addr: int = 0x7F510001
    stride: int = STRIDE


def packets(aim: Aim) -> Iterator[tuple[str, bytes]]:
    """Every kind by name: DATA, repairs, words, questions, arrays, and what is foreign."""
    data = Data(aim.flow | 1, aim.block, n_psn=4, psn=0, stride=aim.stride, first_ttl=64)
    repair = Data(aim.flow | 1, aim.block, 4, 0, aim.stride, 64, REPAIR, 1)
    yield "data", _down(aim, data, bytes(aim.stride))
    yield "repair", _down(aim, repair, bytes(aim.stride))
    yield (
        "manifest",
        _down(aim, Data(aim.flow & ~1, 0, 4, 0, aim.stride, 64), bytes(aim.stride)),
    )
    yield "ask", _down(aim, Ask(flow=aim.flow & ~1, cursor=0, nonce=7))
    yield "close", _down(aim, Close(flow=aim.flow & ~1, reason=2))
    yield "report", _down(aim, Report(ReportState.DONE, aim.bfir_id, aim.flow & ~1, nonce=7))
    for kind, whats in ((Kind.FOLD, UP), (Kind.SPREAD, DOWN)):
        for what in sorted(whats):
            fold = Fold(kind, what, aim.group, aim.block, n_slots=8, root_level=0)
            yield f"{kind.name} {FoldWhat(what).name}", _down(aim, fold, GROUP_PORT)
    yield from words(aim)
    foreign = bytearray(_down(aim, data, bytes(aim.stride)))
    foreign[9] = foreign[9] & 0xC0 | 2  # MPLS after the BIER header: nothing of ours
    yield "foreign", bytes(foreign)


def words(aim: Aim) -> Iterator[tuple[str, bytes]]:
    """FEEDBACK of whom ``bits`` names, and one that nobody is in."""
    told = aim.sub_domain if aim.told < 0 else aim.told
    for name, heard in (("feedback", aim.bits), ("feedback of nobody", 0)):
        rows = (FeedbackRow(0, heard),) if heard else ()
        word = Feedback(
            bs.bift_id(BSL, told, 0),
            aim.flow | 1,
            aim.block,
            4,
            heard=heard,
            done=0,
            rows=rows,
            queue=255,
            room=0,
            worst=9,
        )
        yield name, _up(aim, word)


def _down(aim: Aim, message: Message, payload: bytes | int = b"") -> bytes:
    port = payload if isinstance(payload, int) else FLOW_PORT
    body = b"" if isinstance(payload, int) else payload
    if isinstance(message, Report):
        return _up(aim, message)
    header = BierHeader(bs.bift_id(BSL, aim.sub_domain, 0), 64, aim.bfir_id, aim.bits)
    return build(header, aim.addr, GROUP_ADDRESS, port, message, body)


def _up(aim: Aim, message: Message) -> bytes:
    header = BierHeader(bs.bift_id(BSL, aim.sub_domain, 0), 64, aim.bfir_id, aim.bits or 1)
    return build(header, aim.addr, aim.addr, FLOW_PORT, message)
