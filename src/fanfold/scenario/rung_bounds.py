"""How far a rung may be off: the largest error against packets where both were run.

Programs are told apart by shape, by packets of a piece, and by the links: layered, flat, or
uneven. The errors are those of ``rung_errors.py``, which is measured; a bound is half as much
again as the largest of its cells, and then the next step of a ladder.
"""

from typing import Literal

import numpy as np

from fanfold.scenario.rung_errors import MEASURED
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.topo.net import Net

Shape = Literal["messages", "rounds", "pipeline", "fan", "fans", "mixed", "sums"]
Load = Literal["layered", "flat", "uneven"]
STEPS = (10, 15, 20, 30, 50, 70)
LADDER_PPM = tuple(step * 10**power for power in range(2, 8) for step in STEPS)
MARGIN_PER_MILLE = 1500
"""Of 1,200 further runs of chance, 1 in 100 was farther off than any that was measured."""
UNKNOWN = -1
"""Nothing alike was run by packets."""
SHORT_TRAIN = 8
BANDS = (1, 8, 64)
"""Full packets of a piece: none, below the second, below the third, and more."""
_ERRORS = {row[:4]: row[4] for row in MEASURED}


def shape_of(program: Program) -> Shape:
    """What of a program an error depends on most."""
    if program.sums:
        return "sums"
    if program.fans:
        return "mixed" if program.src.size else "fan" if len(program.fans) == 1 else "fans"
    if program.chunks > 1:
        return "pipeline"
    is_staged = program.dep.size > 0 or program.n_messages != program.src.size
    return "rounds" if is_staged else "messages"


def band_of(program: Program, settings: Settings) -> int:
    """Index of the band of its mean piece."""
    sizes = [*program.n_bytes.tolist(), *(one.n_bytes for one in program.many)]
    if program.exchange is not None:
        sizes = program.exchange.mean_bytes
    piece = sum(sizes) // max(len(sizes) * program.chunks, 1)
    return sum(piece // settings.payload_bytes >= edge for edge in BANDS)


def load_of(net: Net, settings: Settings) -> Load:
    """Whether packets spread over links of one rate, and whether routers stand in layers."""
    has_one_rate = np.unique(net.bps).size == 1 and np.unique(net.prop_ps).size == 1
    if not has_one_rate or settings.routing != "spray" or settings.window_pkts:
        return "uneven"
    is_flat = net.is_flat and net.n_nodes - net.n_hosts > 1
    return "flat" if is_flat else "layered"


def bound_ppm(net: Net, program: Program, settings: Settings, segment_pkts: int) -> int:
    """Bound of a rung in parts per million, UNKNOWN where nothing alike was measured.

    Args:
        segment_pkts: of a train, 1 for packets, 0 at flow.
    """
    if segment_pkts == 1:
        return 0
    rung = "flow" if segment_pkts == 0 else "short" if segment_pkts <= SHORT_TRAIN else "long"
    shape, band = shape_of(program), band_of(program, settings)
    error = _ERRORS.get((shape, band, load_of(net, settings), rung), UNKNOWN)
    if error == UNKNOWN:
        return UNKNOWN
    most = error * MARGIN_PER_MILLE // 1000
    return next((step for step in LADDER_PPM if step >= most), most)


def bound_text(ppm: int) -> str:
    """A bound in words."""
    if ppm == UNKNOWN:
        return "never measured against packets"
    if ppm == 0:
        return "the same as packets"
    tenths = -(-ppm // 1000)
    percent = f"{tenths // 10}.{tenths % 10}" if tenths % 10 else f"{tenths // 10:,}"
    return f"within {percent} % of packets"
