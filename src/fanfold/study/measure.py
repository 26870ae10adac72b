"""One phase on a fabric: simulated at the fidelity that its work allows."""

import functools
from typing import NamedTuple

import msgspec
import numpy as np

from fanfold.results.outcome import Outcome
from fanfold.run import Job, Stage, simulate_job
from fanfold.scenario.fidelity import Choice, choose
from fanfold.scenario.scenario import Fidelity, Scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import Scheme
from fanfold.schemes.program import Program
from fanfold.schemes.tree_fans import Site
from fanfold.study.lower import lower
from fanfold.study.phases import Phase
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.trees.settings import TreeSettings

MOST_HOPS = 3_000_000
"""Packets times links of one phase that are moved one by one: about ten seconds of one core
where every packet is a message to many of its own."""


class Moved(NamedTuple):
    """A phase that moved bytes: by what program, how exactly, what came out, and a note."""

    program: Program
    choice: Choice
    outcome: Outcome
    note: str


@functools.lru_cache(maxsize=2)
def stage_of(topology: str, seed: int) -> Stage:
    """Net and routes; the last ones are kept, as tasks of one fabric follow each other.

    Raises:
        ConfigError: a fault of the topology.
    """
    net = build_named_net(topology, seed)
    return Stage(net, build_routes(net), None, True, Site(net, TreeSettings()))


def move(
    scheme: Scheme, phase: Phase, stage: Stage, settings: Settings, seed: int, asked: Fidelity
) -> Moved:
    """Lower a phase and simulate it.

    Raises:
        ConfigError: the scheme cannot do it, or a path is missing.
    """
    site = stage.site._replace(start="standing" if phase.is_standing else "wait")
    sent = lower(scheme, phase, site, compact=True)
    choice = _choose(asked, stage, sent.program, settings)
    if sent.program.chunks > 1 and (choice.rung != "flow" or phase.ready_ps is not None):
        sent = lower(scheme, phase, site, compact=False)
    scenario = Scenario(topology=stage.net.name, settings=settings, seed=seed)
    outcome = simulate_job(scenario, stage, Job(scheme.name, sent.program, choice))
    return Moved(sent.program, choice, outcome, sent.note)


def _choose(asked: Fidelity, stage: Stage, program: Program, settings: Settings) -> Choice:
    """The rung of the ladder, but no finer than what a study has time for."""
    choice = choose(asked, stage.net, stage.routes, program, settings)
    is_long = choice.rung == "packet" and choice.n_hops > MOST_HOPS and program.fans
    if asked != "auto" or not is_long or settings.loss_ppb:
        return choice
    why = f"about {choice.n_hops:,} packet hops, over {MOST_HOPS:,} of a study"
    return Choice("flow", 0, why, choice.n_hops)


def settings_of(
    payload_bytes: int, n_slots: int, bitstring_bits: int, loss_ppb: int
) -> Settings:
    """Settings of the simulator with what a study changes; 0 leaves a value as it is."""
    changes = {
        "payload_bytes": payload_bytes,
        "n_slots": n_slots,
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
