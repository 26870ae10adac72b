"""Words of the draft, why a cell has its word, and what was assumed for all of them.

The draft is draft-zhang-rtgwg-multicast-requirements-gaps-aidc-01.
"""

from collections.abc import Sequence
from typing import Literal

from fanfold.study.amount import amount
from fanfold.study.gap_ground import TOKEN_BYTES, GapNet
from fanfold.study.gap_table import NEVER_HERE, Limit, Number, Word
from fanfold.study.metric_catalog import metric_of
from fanfold.study.result import Default
from fanfold.trees.settings import TreeSettings
from fanfold.units import PS_PER_SECOND, format_duration, format_size

PIM_HOLD_PS = 105 * PS_PER_SECOND
"""Hold time of a PIM Hello (RFC 7761 4.11)."""
_P: Word = "Poor"
_M: Word = "Moderate"
_G: Word = "Good"
DRAFT_WORDS: dict[str, tuple[Word, Word, Word, Word, Word]] = {
    "pim-sm": (_P, _P, _P, _G, _P),
    "mldp": (_P, _P, _P, _G, _P),
    "sr-p2mp": (_P, _M, _M, _G, _M),
    "bier": (_P, _M, _G, _P, _G),
}
"""Table 1: interactivity, reliability, dynamics, sparseness, simplicity. The text above it says
"good reliability" of BIER and SR-P2MP, where the table says Moderate."""
LOOKS_AT = {
    "interactivity": "whether there is a way back that folds feedback at all",
    "reliability": "fast reroute and whom a fault cuts off, not what repairs of losses cost",
    "dynamics": "whether trees are signalled, not how long that takes",
    "sparseness": "how a header grows with the domain, not what share of a packet it is",
    "simplicity": "whether there are trees and signalling, not how many kinds of either",
}
"""What the draft's text goes by, where its words and the measured ones differ."""


def why_of(
    requirement: str,
    limits: Sequence[Limit],
    numbers: Sequence[Number],
    word: Word,
    draft_word: Word | Literal[""],
) -> str:
    """The numbers that decide, and what the draft goes by where its word is another."""
    by_name = {limit.metric: limit for limit in limits}
    worst = [number for number in numbers if number.word == word]
    if word == "Good":
        why = "every number is within its limit for Good"
    else:
        why = "; ".join(_past(number, by_name[number.metric]) for number in worst)
    if draft_word not in ("", word):
        why += f". The draft says {draft_word}: it goes by {LOOKS_AT[requirement]}"
    return why


def _past(number: Number, limit: Limit) -> str:
    """One number beside the limit that it passes."""
    at = limit.good if number.word == "Moderate" else limit.moderate
    than = "below" if metric_of(number.metric).better == "more" else "above"
    value = amount(number.metric, number.value)
    if number.value == NEVER_HERE:
        return f"{number.metric} never comes"
    return f"{number.metric} {value}, {than} {amount(number.metric, at)}"


def build_defaults(ground: GapNet, detect_ps: int) -> tuple[Default, ...]:
    """Everything that nobody asked for."""
    plain = TreeSettings()
    queries = plain.n_last_member_queries * plain.last_member_query_ps
    rows = (
        ("message to the large group", format_size(ground.message_bytes), "ours"),
        ("message with one bad cable", format_size(ground.message_bytes // 2), "ours"),
        ("message while a link dies", format_size(ground.message_bytes // 8), "ours"),
        ("token", format_size(TOKEN_BYTES), "DeepSeek-V3: 7,168 values of fp8, 224 of scales"),
        (
            "sparse group among 65,536",
            ground.far_topology,
            "as many as BFR-ids of a sub-domain",
        ),
        ("router on a message", format_duration(plain.process_ps), "assumed, ADR 0014"),
        ("change of a table", format_duration(plain.install_ps), "Huang and others, 2013"),
        ("controller on a tree", format_duration(plain.compute_ps), "assumed, ADR 0014"),
        ("last member gone", format_duration(queries), "RFC 9776 8.8 and 8.9"),
        ("dead link noticed", format_duration(detect_ps), "3 x 50 ms, RFC 5880; --detect"),
        ("new paths after that", format_duration(plain.reroute_ps), "Francois, 2005"),
        (
            "dead link noticed without BFD",
            format_duration(PIM_HOLD_PS),
            "PIM Hello, RFC 7761 4.11: what RFC 9186 is for; all rows here have BFD",
        ),
        (
            "leaves of trees",
            "routers know each member: no query; +plain has queries",
            "RFC 9776 appendix, RFC 6636; SR-P2MP's controller has the policy",
        ),
        (
            "feedback of trees and BIER",
            "only losses and marks, one word at the end; +plain an ACK a packet",
            "NORM, RFC 5740",
        ),
        ("feedback of unicast", "an ACK a packet", "ten packets an ACK would make it Good"),
        ("repairs along trees", "to who lacks it; +plain to all of the tree", "RFC 5740"),
        (
            "detour of BIER",
            "round a dead link once noticed, modelled; +plain has none",
            "draft-ietf-bier-frr",
        ),
        (
            "a dead link under fanfold",
            "receivers behind it are given up",
            "neither the simulator nor a live BFR leads round it",
        ),
        ("change of a source's own set", "in its next packet", "the sender knows the set"),
    )
    return tuple(Default(*row) for row in rows)
