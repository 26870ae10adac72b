"""Hypothesis strategies: one legal value for each row of the wire catalog."""

from typing import Any

from hypothesis import strategies as st

from fanfold.wire.ask import Ask
from fanfold.wire.bier import BierHeader
from fanfold.wire.bier_mpls import MplsBierHeader
from fanfold.wire.catalog import MPLS_BSL
from fanfold.wire.close import Close, CloseReason
from fanfold.wire.fan import Data
from fanfold.wire.feedback import Feedback, FeedbackRow
from fanfold.wire.fold import DOWN, UP, Fold, FoldOp, FoldScope, FoldWord
from fanfold.wire.handshake import BODY_BYTES, MARK_BYTES, Handshake
from fanfold.wire.hello import Hello, SessionState
from fanfold.wire.inner import Inner
from fanfold.wire.kinds import Kind
from fanfold.wire.link_bandwidth import BandwidthKind, LinkBandwidth
from fanfold.wire.notice import Notice
from fanfold.wire.report import Report, ReportError, ReportState


def uint(n_bits: int, low: int = 0) -> st.SearchStrategy[int]:
    return st.integers(low, (1 << n_bits) - 1)


def bitstrings(bsl: int) -> st.SearchStrategy[int]:
    return uint(1 << (bsl + 5))


def bift_ids(bsl: int) -> st.SearchStrategy[int]:
    return uint(16).map(lambda low: bsl << 16 | low)


bsls = st.integers(1, 7)
texts = st.text(max_size=128).map(str.encode)


@st.composite
def biers(draw: st.DrawFn) -> BierHeader:
    bsl = draw(bsls)
    return BierHeader(
        bift_id=draw(bift_ids(bsl)),
        ttl=draw(uint(8)),
        bfir_id=draw(uint(16)),
        bitstring=draw(bitstrings(bsl)),
        entropy=draw(uint(20)),
        oam=draw(uint(2)),
        dscp=draw(uint(6)),
        proto=draw(uint(6)),
    )


mplses = st.builds(
    MplsBierHeader,
    label=uint(20),
    bsl=st.just(MPLS_BSL),
    ttl=uint(8),
    bfir_id=uint(16),
    bitstring=bitstrings(MPLS_BSL),
    tc=uint(3),
    entropy=uint(20),
    oam=uint(2),
    proto=uint(6),
)

inners = st.builds(
    Inner,
    src=uint(32),
    dst=uint(32),
    sport=uint(16),
    dport=uint(16),
    payload=st.binary(max_size=70),
    ttl=uint(8),
    tos=uint(8),
)


@st.composite
def datas(draw: st.DrawFn) -> Data:
    n_psn = draw(st.integers(1, 64))
    return Data(
        flow=draw(uint(32)),
        block=draw(uint(32)),
        n_psn=n_psn,
        psn=draw(st.integers(0, n_psn - 1)),
        stride=draw(uint(16, low=1)),
        first_ttl=draw(uint(8)),
        flags=draw(uint(3)),
        round=draw(uint(8)),
    )


@st.composite
def feedbacks(draw: st.DrawFn) -> Feedback:
    bsl = draw(st.integers(1, 3))
    n_psn = draw(st.integers(1, 64))
    heard = draw(bitstrings(bsl))
    psns = sorted(draw(st.sets(st.integers(0, n_psn - 1), max_size=4)))
    return Feedback(
        bift_id=draw(bift_ids(bsl)),
        flow=draw(uint(32)),
        block=draw(uint(32)),
        n_psn=n_psn,
        heard=heard,
        done=heard & draw(bitstrings(bsl)),
        rows=tuple(FeedbackRow(psn, heard & draw(bitstrings(bsl))) for psn in psns),
        flags=draw(uint(1)),
        round=draw(uint(8)),
        queue=draw(uint(8)),
        room=draw(uint(8)),
        worst=draw(uint(16)),
        behind=draw(uint(12)),
        n_merged=draw(uint(16)),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    state = draw(st.sampled_from(ReportState))
    bodies = {
        ReportState.READY: st.binary(max_size=60),
        ReportState.FAILED: texts,
        ReportState.CHECKING: texts,
    }
    return Report(
        state=state,
        bfr_id=draw(uint(16, low=1)),
        flow=draw(uint(32)),
        cursor=draw(uint(32)),
        nonce=draw(uint(32)),
        n_have=draw(uint(32)),
        error=draw(st.sampled_from(ReportError)),
        elapsed_us=draw(uint(64)),
        digest=draw(st.binary(min_size=32, max_size=32)),
        mac=draw(st.binary(min_size=16, max_size=16)),
        body=draw(bodies.get(state, st.just(b""))),
    )


@st.composite
def notices(draw: st.DrawFn) -> Notice:
    n_ports = draw(st.integers(0, 40))
    return Notice(draw(uint(32)), draw(uint(16)), n_ports, draw(uint(63)), draw(uint(n_ports)))


@st.composite
def folds(draw: st.DrawFn) -> Fold:
    kind = draw(st.sampled_from((Kind.FOLD, Kind.SPREAD)))
    scope = draw(st.sampled_from(FoldScope))
    return Fold(
        kind=int(kind),
        what=draw(st.sampled_from(sorted(UP if kind == Kind.FOLD else DOWN))),
        group=draw(uint(32)),
        block=draw(uint(32)),
        op=draw(st.sampled_from(FoldOp)),
        word=draw(st.sampled_from(FoldWord)),
        flags=draw(uint(6)),
        exponent=draw(uint(16)),
        n_merged=draw(uint(16)),
        only=draw(uint(16, low=1)) if scope else 0,
        scope=scope,
        root_level=draw(uint(8)),
        n_slots=draw(uint(16)),
        patience=draw(uint(16)),
    )


asks = st.builds(Ask, flow=uint(31).map(lambda n: n * 2), cursor=uint(32), nonce=uint(32))
closes = st.builds(
    Close,
    flow=uint(32),
    reason=st.sampled_from(CloseReason),
    nonce=uint(32),
    signature=st.binary(min_size=64, max_size=64),
)
hellos = st.builds(
    Hello,
    state=st.sampled_from(SessionState),
    detect_mult=st.integers(1, 255),
    fabric=uint(32),
    my_disc=uint(32, low=1),
    your_disc=uint(32),
    interval_us=uint(32),
    wanted_us=uint(32),
    digest=uint(64),
    diag=uint(8),
    lag_ms=uint(16),
    poll=st.booleans(),
    final=st.booleans(),
)


@st.composite
def handshakes(draw: st.DrawFn) -> Handshake:
    step = draw(st.sampled_from(sorted(BODY_BYTES)))
    n_body = BODY_BYTES[step]
    mark = st.binary(min_size=MARK_BYTES, max_size=MARK_BYTES)
    return Handshake(
        step=step,
        port=draw(uint(16, low=1)),
        session=draw(uint(32)),
        proof=draw(mark),
        cookie=draw(mark),
        body=draw(st.binary(min_size=n_body, max_size=n_body)),
    )


bandwidths = st.builds(
    LinkBandwidth, kind=st.sampled_from(BandwidthKind), asn=uint(16), value=uint(32)
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bier": biers(),
    "bier_mpls": mplses,
    "inner": inners,
    "fan": datas(),
    "feedback": feedbacks(),
    "ask": asks,
    "report": reports(),
    "close": closes,
    "fold": folds(),
    "hello": hellos,
    "notice": notices(),
    "handshake": handshakes(),
    "link_bandwidth": bandwidths,
}
