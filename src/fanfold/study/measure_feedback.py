"""Interactivity: what a source hears, how late, how soon it knows of a queue.

The large group gets one message. A slow line in front of one receiver makes the queue.
"""

import numpy as np

from fanfold.core.sender import FanSender
from fanfold.results.outcome import DATA, Outcome
from fanfold.schemes.program import Program
from fanfold.sim.loop.ports import time_of
from fanfold.sim.simulate import Simulation
from fanfold.study.gap_ground import SOURCE, GapNet, Numbers, SchemeRow
from fanfold.study.gap_sim import program_of, settings_of
from fanfold.study.gap_table import NEVER_HERE

SLOWER = 4
MARK_BYTES = 1 << 16
TURNS = 256
"""Events between two looks at queue and senders."""


def measure_feedback(ground: GapNet, row: SchemeRow, base: Outcome) -> Numbers:
    """Feedback at the source for its data, its delay, reaction to a queue."""
    program = program_of(ground, row, ground.receivers, ground.message_bytes)
    first = ground.net.first_out
    mine = slice(int(first[SOURCE]), int(first[SOURCE + 1]))
    n_data = int(base.link_pkts[mine, DATA].sum())
    n_heard = int(base.feedback_at_source[_items_of(program)].sum())
    last_ps = int(base.host_ps.max())
    return {
        "feedback_pkts": n_heard,
        "feedback_per_kpkt": 1000 * n_heard // n_data,
        "feedback_ps": NEVER_HERE if base.stuck else base.end_ps - last_ps,
        **_reaction(ground, row, program, victim_link(ground, base)),
    }


def _reaction(ground: GapNet, row: SchemeRow, program: Program, line: int) -> Numbers:
    """From the first mark until a sender of a fan cuts its window.

    Empty for messages from host to host, whose senders do not react in this simulator.
    """
    if not program.fans:
        return {}
    sim = Simulation(
        ground.net,
        ground.routes,
        program,
        settings_of(row),
        seed=ground.seed,
        whole=True,
    )
    link = sim.world.links[line]
    link["byte_num"] *= SLOWER
    link["mark_ps"] = time_of(link, MARK_BYTES)
    marked_ps = NEVER_HERE
    going = True
    while going:
        going = sim.step(TURNS)
        now_ps = sim.progress().now_ps
        if marked_ps == NEVER_HERE and link["peak_ps"] > link["mark_ps"]:
            marked_ps = now_ps
        senders = [one for one in sim.fans.machines.values() if isinstance(one, FanSender)]
        if any(lane.pace.n_cuts for sender in senders for lane in sender.lanes):
            return {"reaction_ps": max(now_ps - marked_ps, 0)}
    return {"reaction_ps": NEVER_HERE}


def _items_of(program: Program) -> list[int]:
    """Items that the source itself sends."""
    sent = [i for i, src in enumerate(program.src.tolist()) if src == SOURCE]
    n = program.src.size
    return sent + [n + i for i, fan in enumerate(program.fans) if fan.source == SOURCE]


def victim_link(ground: GapNet, base: Outcome) -> int:
    """Link to the last receiver that carried most of its data."""
    (links,) = np.nonzero(ground.net.dst == ground.receivers[-1])
    return int(links[np.argmax(base.link_pkts[links, DATA])])
