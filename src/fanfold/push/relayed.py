"""What is known of a push with relays: of its first fan, and of each that a relay sent on."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fanfold.push.peer import State
from fanfold.push.result import LinkResult, PushResult, ReceiverResult
from fanfold.units import PS_PER_SECOND


class PassResult(msgspec.Struct, frozen=True):
    """One fan to the rest of a site. seconds: from the begin of the whole to its begin and end.

    verified: who had all by their own word. error: why it is not all of them.
    """

    source: str = msgspec.field(name="from")
    targets: list[str]
    verified: list[str]
    began_seconds: float
    ended_seconds: float
    goodput_bps: int = 0
    error: str = ""


class RelayResult(msgspec.Struct, frozen=True):
    """A site: who was to pass on, why that one, and each fan that was sent to the others."""

    site: str
    relay: str
    reason: str
    passes: list[PassResult] = msgspec.field(default_factory=list)


class RelayedResult(PushResult, frozen=True):
    """A push with relays; receivers and links are those of all its fans together."""

    relays: list[RelayResult] = msgspec.field(default_factory=list)
    """Sites whose relay was chosen or named."""


class Ended(msgspec.Struct, frozen=True):
    """One fan that has ended. began_s: from the begin of the whole."""

    began_s: float
    result: PushResult


def joined(
    first: PushResult,
    later: Sequence[Ended],
    relays: list[RelayResult],
    lost: Mapping[str, str],
    seconds: float,
) -> RelayedResult:
    """One result of all fans.

    Args:
        lost: receivers, as they were asked for, with what to say of one of whom no fan tells.
        seconds: from begin to end of the whole.
    """
    fans = [Ended(0.0, first), *later]
    rows = _receivers(fans)
    receivers = [
        rows.get(name) or ReceiverResult(name, str(State.FAILED), "", 0.0, why, split=False)
        for name, why in lost.items()
    ]
    verified = [r.seconds for r in receivers if r.state == State.VERIFIED]
    own = [r.seconds for r in first.receivers if r.state == State.VERIFIED]
    data_start_s = max(own, default=first.seconds) - first.data_seconds
    data_s = round(max(max(verified, default=seconds) - data_start_s, 0), 6)
    data_ps = round(data_s * PS_PER_SECOND)
    links = _links(x.result.links for x in fans)
    ends = [r.id for r in receivers if r.state != State.VERIFIED]
    values = {name: getattr(first, name) for name in PushResult.__struct_fields__}
    values |= {
        "seconds": round(seconds, 6),
        "data_seconds": data_s,
        "goodput_bps": first.bytes * 8 * PS_PER_SECOND // data_ps if data_ps else 0,
        "receivers": receivers,
        "links": links,
        "feedback": _sums(x.result.feedback for x in fans),
        "repairs": _sums(x.result.repairs for x in fans),
        "source_link_bytes": sum(
            x.result.source_link_bytes for x in fans if x.result.source == first.source
        ),
        "suspects": _all(x.result.suspects for x in fans) if ends else [],
        "warnings": _all(x.result.warnings for x in fans),
        "notes": _all(x.result.notes for x in fans),
        "unheard": _all(x.result.unheard for x in fans),
        "gray": [gray for x in fans for gray in x.result.gray],
        "cpu_seconds": round(sum(x.result.cpu_seconds for x in fans), 3),
    }
    return RelayedResult(**values, relays=relays)


def _receivers(fans: Iterable[Ended]) -> dict[str, ReceiverResult]:
    """The word of each receiver that counts: the first by which it has all, or its last."""
    found: dict[str, ReceiverResult] = {}
    for fan in fans:
        for row in fan.result.receivers:
            if row.id in found and found[row.id].state == State.VERIFIED:
                continue
            seconds = round(row.seconds + fan.began_s, 6) if row.seconds else 0.0
            found[row.id] = msgspec.structs.replace(row, seconds=seconds)
    return found


def _links(of_fans: Iterable[Sequence[LinkResult]]) -> list[LinkResult]:
    """Links of several fans, each one once: what was predicted and counted of all."""
    rows: dict[tuple[str, str], list[LinkResult]] = defaultdict(list)
    for links in of_fans:
        for link in links:
            rows[link.src, link.dst].append(link)
    counts = [f for f in LinkResult.__struct_fields__ if f not in ("src", "dst", "counted")]
    return [
        LinkResult(
            src=src,
            dst=dst,
            **{name: sum(getattr(link, name) for link in them) for name in counts},
            counted=all(link.counted for link in them),
        )
        for (src, dst), them in sorted(rows.items())
    ]


def _sums(of_fans: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in of_fans:
        for key, n in counts.items():
            total[key] = total.get(key, 0) + n
    return total


def _all(of_fans: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(line for lines in of_fans for line in lines))
