"""BIFTs of all routers: a table is filled when it is first looked at.

A fan passes few of the BFRs of a large net. What is filled is what live nodes have
(``kernels.bift``); tables of trees come after those that ECMP deals out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.kernels.bift import Birt, fill_bift
from fanfold.kernels.jit import kernel
from fanfold.sim.loop.rows import I64, N_ECMP, N_HOSTS, N_SI, U8


class Tables(NamedTuple):
    """R = routers, T = R * n_si * all tables, P = ports, W = words.

    nbr_of: (T, bits), f_bm: (T, P + 2, W): kernels/tables.py. is_filled: (T,). birt: whence.
    """

    nbr_of: I64
    f_bm: NDArray[np.uint64]
    is_filled: U8
    birt: Birt


@kernel
def look_up(q: I64, tables: Tables, r: int, si: int, e: int) -> int:
    """Table e of router r and one SI: those that ECMP deals out first, trees after them."""
    table = (r * q[N_SI] + si) * q[N_ECMP] + e
    if tables.is_filled[table] == 0:
        tables.is_filled[table] = 1
        if e < tables.birt.n_dealt:
            fill_bift(
                tables.birt, q[N_HOSTS] + r, si, e, tables.nbr_of[table], tables.f_bm[table]
            )
    return table
