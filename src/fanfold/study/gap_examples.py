"""Three claims, simulated: a thousand receivers, their ACKs, four regions.

They are those of McBride's slides "Multicast for AI Data Centers" (ChiNOG 2025).

The scenarios are also files in examples/, for ``fanfold compare``.
"""

from typing import NamedTuple

import numpy as np

from fanfold.results.outcome import DATA, Outcome
from fanfold.run import build_job, build_stage, simulate_job
from fanfold.scenario.scenario import Scenario, Workload
from fanfold.scenario.settings import Settings
from fanfold.study.gap_ground import RATE_BPS, SOURCE
from fanfold.study.gap_table import Example, Line

COPIES, FANS = "unicast", "fanfold"
N_RECEIVERS = 1000
THOUSAND = Scenario(
    name="thousand",
    topology="fat-tree:k=16,rate=400Gbps",
    schemes=(COPIES, FANS),
    fidelity="flow",
    workload=Workload("broadcast", 10**9, N_RECEIVERS + 1),
)
IMPLOSION = Scenario(
    name="implosion",
    topology="fat-tree:k=16,rate=400Gbps",
    schemes=("bier", FANS),
    fidelity="packet",
    workload=Workload("broadcast", 64 * 4096, N_RECEIVERS + 1),
    settings=Settings(feedback="packet"),
)
REGIONS = Scenario(
    name="regions",
    topology="star:hosts=5,rate=100Gbps,delay=30ms",
    schemes=(COPIES, FANS),
    fidelity="flow",
    workload=Workload("broadcast", 500 * 10**9),
)


class Told(NamedTuple):
    """What one scheme carried: data packets and bytes on the source's link, and so on."""

    source_pkts: int
    source_bytes: int
    fabric_bytes: int
    feedback: int
    last_ps: int
    end_ps: int


def build_examples() -> tuple[Example, ...]:
    """Run them; the same for every fabric that is asked for."""
    return (thousand(), implosion(), regions())


def thousand() -> Example:
    """400 Gbit/s to each of 1,000 receivers."""
    told = _run(THOUSAND)
    copies, fans = told[COPIES], told[FANS]
    size = THOUSAND.workload.n_bytes if THOUSAND.workload else 1
    n_pkts = -(-size // Settings().payload_bytes)
    rates = {name: each.source_pkts * RATE_BPS // n_pkts for name, each in told.items()}
    return Example(
        "400 Gbit/s to 1,000 receivers",
        _command(THOUSAND),
        (
            _line("source link, for 400 Gbit/s at each receiver", "bit/s", rates),
            _line("packets on the source link", "packets", _of(told, "source_pkts")),
            _line("bytes on the source link", "bytes", _of(told, "source_bytes")),
            _line("bytes on all links", "bytes", _of(told, "fabric_bytes")),
            _line("until the last receiver has it", "ps", _of(told, "last_ps")),
        ),
        f"source link: {times(copies.source_pkts, fans.source_pkts)} fewer packets, "
        f"{times(copies.source_bytes, fans.source_bytes)} fewer bytes, headers included; "
        f"whole fabric: {times(copies.fabric_bytes, fans.fabric_bytes)} fewer bytes",
    )


def implosion() -> Example:
    """One ACK a packet from each of 1,000 receivers, or words that are folded."""
    told = _run(IMPLOSION)
    alone, folded = told["bier"], told[FANS]
    n_pkts = alone.source_pkts
    return Example(
        "ACK implosion, 1,000 receivers",
        _command(IMPLOSION),
        (
            _line("data packets from the source", "packets", _of(told, "source_pkts")),
            _line("feedback packets at the source", "packets", _of(told, "feedback")),
            _line("until the last receiver has it", "ps", _of(told, "last_ps")),
            _line("until the source knows", "ps", _of(told, "end_ps")),
        ),
        f"an ACK a packet from each: {alone.feedback // n_pkts:,} for a packet; folded: "
        f"{folded.feedback:,} for all {n_pkts} packets of a block, one for each of the "
        f"source's branches",
    )


def regions() -> Example:
    """500 GB to four regions; the source's line is its site's egress."""
    told = _run(REGIONS)
    copies, fans = told[COPIES], told[FANS]
    size = REGIONS.workload.n_bytes if REGIONS.workload else 1
    payload = {
        name: round_to(each.source_pkts * Settings().payload_bytes, size)
        for name, each in told.items()
    }
    return Example(
        "500 GB to 4 regions behind a replication point",
        _command(REGIONS),
        (
            _line("payload that leaves the source's site", "bytes", payload),
            _line("bytes that leave it, headers included", "bytes", _of(told, "source_bytes")),
            _line("until the last region has it", "ps", _of(told, "last_ps")),
        ),
        f"WAN egress: {times(copies.source_pkts, fans.source_pkts)} less of it",
    )


def round_to(n_bytes: int, size: int) -> int:
    """Whole messages of a size: packets are full but for the last one of each."""
    return n_bytes // size * size


def times(more: int, less: int) -> str:
    """A ratio with one decimal."""
    tenths = (10 * more + less // 2) // max(less, 1)
    return f"{tenths // 10:,}.{tenths % 10} x"


def _run(scenario: Scenario) -> dict[str, Told]:
    stage = build_stage(scenario)
    mine = slice(int(stage.net.first_out[SOURCE]), int(stage.net.first_out[SOURCE + 1]))
    return {
        name: _told(simulate_job(scenario, stage, build_job(scenario, name, stage)), mine)
        for name in scenario.schemes
    }


def _told(outcome: Outcome, mine: slice) -> Told:
    done = outcome.host_ps[outcome.due_bytes > 0]
    return Told(
        int(outcome.link_pkts[mine, DATA].sum()),
        int(outcome.link_bytes[mine].sum()),
        int(outcome.link_bytes.sum()),
        int(outcome.feedback_at_source.sum()),
        int(np.max(done)),
        outcome.end_ps,
    )


def _of(told: dict[str, Told], field: str) -> dict[str, int]:
    return {name: getattr(each, field) for name, each in told.items()}


def _line(what: str, unit: str, values: dict[str, int]) -> Line:
    return Line(what, unit, tuple(values.items()))


def _command(scenario: Scenario) -> str:
    return f"fanfold compare examples/{scenario.name}.toml"
