"""Reliability, the part of lost packets: goodput, and repairs for those who lack nothing."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.results.outcome import DATA, REPAIR, Outcome
from fanfold.scenario.fidelity import distances
from fanfold.sim.simulate import Simulation
from fanfold.study.gap_ground import PPM, GapNet, Numbers, SchemeRow
from fanfold.study.gap_sim import play, program_of, settings_of
from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.measure_faults import domain_of
from fanfold.study.measure_feedback import victim_link
from fanfold.topo.routes import FAR
from fanfold.trees.settings import TreeSettings
from fanfold.units import PPB_ONE, PS_PER_SECOND

MOST_PPB = int(PPB_ONE) // 10
"""Loss of the bad cable, at most."""


def measure_loss(
    ground: GapNet, row: SchemeRow, base: Outcome, lossy: Sequence[Outcome]
) -> Numbers:
    """Goodput with and without loss, drops, repairs; repairs beside one bad cable.

    Args:
        lossy: the same message with loss on all links, once a seed; none where not run. One
            loss at the end can cost much of a run: goodput is that of their median, beside
            the worst and the best.
    """
    numbers = dict(_gray(ground, row, victim_link(ground, base)))
    if lossy:
        told = sorted(lossy, key=_end_of)[len(lossy) // 2]

        def kept(run: Outcome) -> int:
            return NEVER_HERE if run.stuck else min(PPM * base.end_ps // run.end_ps, PPM)

        numbers |= {
            "goodput_bps": 8 * int(told.due_bytes.max()) * PS_PER_SECOND // told.end_ps,
            "goodput_ppm": kept(told),
            "goodput_least_ppm": kept(max(lossy, key=_end_of)),
            "goodput_most_ppm": kept(min(lossy, key=_end_of)),
            "drops": int(told.link_drops.sum()),
            "repair_bytes": int(told.link_bytes[:, REPAIR].sum()),
        }
    return numbers


def _end_of(outcome: Outcome) -> tuple[bool, int]:
    """Runs that could not end come last."""
    return bool(outcome.stuck), outcome.end_ps


def _gray(ground: GapNet, row: SchemeRow, line: int) -> Numbers:
    """One receiver's cable loses as many packets as all links would at the loss asked for."""
    program = program_of(ground, row, ground.receivers, ground.message_bytes // 2)
    settings = msgspec.structs.replace(settings_of(row), loss_ppb=1)
    told = play(ground, program, settings, lambda sim: _spoil(ground, sim, line))
    healthy = np.ones(ground.net.n_links, np.bool_)
    victim = ground.receivers[-1]
    senders = program.src[program.dst == victim].tolist() or [program.fans[0].source]
    for sender in sorted(set(senders)):
        healthy &= ~on_ways(ground, sender, victim)
    data = int(told.link_bytes[:, DATA].sum())
    spilt = int(told.link_bytes[healthy, REPAIR].sum())
    return {"healthy_repair_bytes": spilt, "healthy_repair_ppm": PPM * spilt // data}


def _spoil(ground: GapNet, sim: Simulation, line: int) -> None:
    """Move the loss of all links of the large group's tree to one cable."""
    tree = domain_of(ground, TreeSettings()).tree()
    links = sim.world.links
    links["loss_ppb"] = 0
    links["loss_ppb"][line] = min(ground.loss_ppb * len(tree.links), MOST_PPB)


def on_ways(ground: GapNet, sender: int, victim: int) -> NDArray[np.bool_]:
    """(L,) links on shortest paths from a host to another."""
    net, routes = ground.net, ground.routes
    up, down = (_hops_to(ground, host) for host in (sender, victim))
    shortest = int(distances(net, routes, np.array([sender]), np.array([victim]))[0])
    found: NDArray[np.bool_] = up[net.src] + 1 + down[net.dst] == shortest
    return found


def _hops_to(ground: GapNet, host: int) -> NDArray[np.int64]:
    """(N,) links from each router to a host; other hosts are far from everything."""
    hops = np.full(ground.net.n_nodes, FAR, np.int64)
    hops[ground.net.n_hosts :] = ground.routes.hops[:, ground.routes.group[host]]
    hops[host] = 0
    return hops
