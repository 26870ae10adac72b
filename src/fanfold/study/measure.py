"""One phase on a fabric: simulated at the fidelity that its work allows."""

import functools
from collections import Counter
from typing import NamedTuple

import msgspec
import numpy as np
from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.results.outcome import Outcome
from fanfold.run import Job, Stage, simulate_job
from fanfold.scenario.fidelity import Choice, choose
from fanfold.scenario.rung_bounds import bound_ppm
from fanfold.scenario.scenario import Fidelity, Scenario
from fanfold.scenario.settings import Settings
from fanfold.scenario.width import WIDTHS
from fanfold.schemes.catalog import Scheme
from fanfold.schemes.program import NO_TREE, Program
from fanfold.schemes.program_rules import planes_note
from fanfold.schemes.tree_fans import Site
from fanfold.study.lower import Sent, lower
from fanfold.study.phases import Phase
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings

MOST_HOPS = 3_000_000
"""Packets times links of one phase that are moved one by one: about ten seconds of one core
where every packet is a message to many of its own."""


MOST_NAMED = 8
"""Groups named one by one."""
MOST_ECMP = 32
"""BIFTs of a router for its equal paths (RFC 8279 section 6.7.2): with fewer, many messages to
many share the same links."""


class Moved(NamedTuple):
    """A phase that moved bytes: by what program, how exactly, what came out, and a note.

    first_ps: until the last receiver had the first layer, 0 where nobody asked.
    """

    program: Program
    choice: Choice
    outcome: Outcome
    note: str
    first_ps: int = 0


@functools.lru_cache(maxsize=2)
def stage_of(topology: str, seed: int) -> Stage:
    """Net and routes; the last ones are kept, as tasks of one fabric follow each other.

    Raises:
        ConfigError: a fault of the topology.
    """
    net = build_named_net(topology, seed)
    return Stage(net, build_routes(net), None, True, Site(net, TreeSettings()), net.node_name)


def move(
    scheme: Scheme, phase: Phase, stage: Stage, settings: Settings, seed: int, asked: Fidelity
) -> Moved:
    """Lower a phase and simulate it.

    Raises:
        ConfigError: the scheme cannot do it, or a path is missing.
    """
    site = stage.site
    if phase.is_standing:
        site = Site(stage.net, site.settings, "standing")
    if phase.payload_bytes:
        settings = msgspec.structs.replace(settings, payload_bytes=phase.payload_bytes)
    sent = lower(scheme, phase, site, compact=True)
    choice = _choose(asked, stage, sent.program, settings)
    if sent.program.chunks > 1 and (choice.rung != "flow" or phase.ready_ps is not None):
        sent = lower(scheme, phase, site, compact=False)
    scenario = Scenario(topology=stage.net.name, settings=settings, seed=seed)
    job = Job(scheme.name, sent.program, choice)
    key = _digest(scenario, job)
    if key not in _memo:
        if len(_memo) >= MOST_KEPT:
            _memo.pop(next(iter(_memo)))
        _memo[key] = simulate_job(scenario, stage, job)
    outcome = _memo[key]
    first = _first_ps(phase, sent, outcome) if phase.first_bytes else 0
    notes = [
        note
        for note in (
            sent.note,
            planes_note(sent.program, stage.net, scenario.settings.planes),
            _slots_note(stage.net, sent.program, outcome),
        )
        if note
    ]
    return Moved(sent.program, choice, outcome, "; ".join(notes), first)


def _slots_note(net: Net, program: Program, outcome: Outcome) -> str:
    """Which sums got how many slots of BFRs, empty where none was asked for."""
    pairs = zip(program.sums, outcome.sum_slots, strict=True)
    slots = [(n, one.hosts[0]) for one, n in pairs if one.tree == NO_TREE]
    if not slots:
        return ""
    joined, passed, _ = outcome.arrays
    alone = f", {passed / (joined + passed):.0%} of arrays passed on" if passed else ""
    counts = Counter(n for n, _ in slots)
    if len(counts) > 1 and len(slots) <= MOST_NAMED:
        parts = [f"{n:,} for the group of {net.node_name(host)}" for n, host in slots]
    else:
        parts = [f"{n:,} for {times}" for n, times in sorted(counts.items(), reverse=True)]
    return f"slots of sums in each BFR: {', '.join(parts)}{alone}"


def _first_ps(phase: Phase, sent: Sent, outcome: Outcome) -> int:
    """From a host's arrival until it has all items that begin in the first layer; the last."""
    assert phase.ready_ps is not None
    program = sent.program
    had = np.zeros(phase.ready_ps.size, np.int64)
    early = np.nonzero(sent.begin < phase.first_bytes)[0]
    for item in early.tolist():
        at = int(outcome.item_ps[item])
        if item < program.src.size:
            hosts = [int(program.dst[item])]
        elif item < program.first_sum:
            hosts = list(program.fans[item - program.src.size].receivers)
        else:
            hosts = list(program.sums[item - program.first_sum].hosts)
        had[hosts] = np.maximum(had[hosts], at)
    waited = np.where(had > 0, had - phase.ready_ps, 0)
    return int(waited.max(initial=0))


_memo: dict[bytes, Outcome] = {}
MOST_KEPT = 4
"""Outcomes of programs of messages alone, which many schemes send alike on the way back."""


def _digest(scenario: Scenario, job: Job) -> bytes:
    """Of all that an outcome depends on."""
    program = job.program
    digest = blake3(msgspec.json.encode((scenario, job.choice)))
    for column in program:
        if isinstance(column, np.ndarray):
            digest.update(column.tobytes())
        else:
            digest.update(repr(column).encode())
    return digest.digest()


def _choose(asked: Fidelity, stage: Stage, program: Program, settings: Settings) -> Choice:
    """The rung of the ladder, but no finer than what a study has time for."""
    choice = choose(asked, stage.net, stage.routes, program, settings)
    is_long = choice.rung == "packet" and choice.n_hops > MOST_HOPS and program.fans
    if asked != "auto" or not is_long or settings.loss_ppb:
        return choice
    why = f"about {choice.n_hops:,} packet hops, over {MOST_HOPS:,} of a study"
    error = bound_ppm(stage.net, program, settings, 0)
    return Choice("flow", 0, why, choice.n_hops, error)


def settings_of(
    stage: Stage,
    n_ecmp: int,
    n_slots: int,
    bitstring_bits: int,
    loss_ppb: int,
    *,
    array_slots: int = 0,
) -> Settings:
    """Settings of the simulator with what a study changes; 0 leaves a value as it is."""
    if bitstring_bits and bitstring_bits not in WIDTHS:
        raise ConfigError("bits", bitstring_bits, ", ".join(map(str, WIDTHS)))
    widest = int(np.diff(stage.routes.first).max(initial=1))
    changes = {
        "n_ecmp": n_ecmp or min(widest, MOST_ECMP),
        "n_slots": n_slots,
        "array_slots": array_slots,
        "bitstring_bits": bitstring_bits,
        "loss_ppb": loss_ppb,
    }
    given = {name: value for name, value in changes.items() if value}
    return msgspec.structs.replace(Settings(), **given)


def took_ps(outcome: Outcome) -> int:
    """Until the last receiver has everything."""
    return int(outcome.host_ps[outcome.due_bytes > 0].max(initial=0))


def is_whole(outcome: Outcome) -> bool:
    """Every receiver got all."""
    return bool(np.array_equal(outcome.got_bytes, outcome.due_bytes))
