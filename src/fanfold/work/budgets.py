"""How late a network may be for each kind of parallelism: limits that pass or fail.

draft-ai-traffic-00, section 3.2: data parallelism copes with several 100s of ms, pipelines with
10s of ms, experts with the range of ms, tensor parallelism with 10s of us. Each limit is the
least of its range: who passes it is inside the range whatever is meant by "several".
"""

from typing import NamedTuple

from fanfold.units import PS_PER_SECOND, PS_PER_US
from fanfold.work.parallel import Parallelism

PS_PER_MS = PS_PER_SECOND // 1000
BUDGET_PS: dict[Parallelism, int] = {
    "DP": 100 * PS_PER_MS,
    "PP": 10 * PS_PER_MS,
    "EP": PS_PER_MS,
    "TP": 10 * PS_PER_US,
}


class Judged(NamedTuple):
    """One latency against its limit; slack_ps below 0 where it fails."""

    parallelism: Parallelism
    budget_ps: int
    latency_ps: int

    @property
    def slack_ps(self) -> int:
        """What is left of the limit."""
        return self.budget_ps - self.latency_ps

    @property
    def passes(self) -> bool:
        """Within the limit, its end included."""
        return self.slack_ps >= 0


def judge(parallelism: Parallelism, latency_ps: int) -> Judged:
    """A network latency, without the time that the bytes take on a link, against its limit."""
    return Judged(parallelism, BUDGET_PS[parallelism], latency_ps)
