"""What came of fans and sums on a run's arrays: folds, arrays joined, wrong results."""

import numpy as np

from fanfold.kernels.codes import FOLD_COMPLETE, FOLD_PARTIAL, FOLD_UNFOLDED
from fanfold.kernels.vat import VAT_ABSORBED, VAT_PARTIAL, VAT_PASSED
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.fans import Bier
from fanfold.sim.loop.sum_rows import IDLE, OVER, Sums
from fanfold.topo.net import Net


class FanCounts:
    """Counters of a run, read from the arrays that ``FanArrays`` has made."""

    net: Net
    bier: Bier
    sums: Sums
    ranks: r.Ranks

    def n_folds(self) -> tuple[int, int, int]:
        """Slots that completed, that went up partial, words that passed unfolded."""
        total = self.bier.events.sum(axis=0)
        return int(total[FOLD_COMPLETE]), int(total[FOLD_PARTIAL]), int(total[FOLD_UNFOLDED])

    def sum_slots(self) -> tuple[int, ...]:
        """Slots that each sum was granted."""
        first = self.ranks.sums["first_rank"]
        return tuple((2 * self.ranks.rows["window"][first]).tolist())

    def n_arrays(self) -> tuple[int, int, int]:
        """Arrays joined in slots, passed on without one, sent up before all had come."""
        total = self.sums.vats.events.sum(axis=0)
        return int(total[VAT_ABSORBED]), int(total[VAT_PASSED]), int(total[VAT_PARTIAL])

    def wrong_sums(self) -> list[str]:
        """Results that were not what all ranks' arrays add up to, the first of each sum."""
        return [
            f"sum {a}: block {one['wrong_block']} wrong at {self._name_of(one['wrong_rank'])}"
            for a, one in enumerate(self.ranks.sums)
            if one["wrong_rank"] != r.NONE
        ]

    def open_sum(self, a: int) -> str:
        """Why a sum is not done: its first rank that waits or has given up."""
        ranks = self.ranks
        mine = np.nonzero((ranks.rows["sum"] == a) & (ranks.rows["state"] != OVER))[0]
        m = int(mine[0])
        rank, n = ranks.rows[m], int(ranks.sums[a]["n_blocks"])
        if rank["state"] == IDLE:
            return f"sum {a}: has not begun"
        if rank["armed"] < 0:
            return f"sum {a}: no BFR has slots for it"
        got = f"{rank['n_done']} of {n} blocks at {self._name_of(m)}"
        return f"sum {a}: {got}, {mine.size} ranks wait"

    def _name_of(self, m: int) -> str:
        rank = self.ranks.rows[m]
        number = m - int(self.ranks.sums[rank["sum"]]["first_rank"])
        return f"rank {number} ({self.net.node_name(int(rank['host']))})"
