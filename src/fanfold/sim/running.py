"""What parts of a simulation see of the whole: its rows as they stand now."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fanfold.sim.loop import rows as r

I64 = NDArray[np.int64]


class Running(Protocol):
    """A run being worked through; rows are exchanged for larger ones as it goes on."""

    q: I64
    world: r.World
    senders: r.Senders
