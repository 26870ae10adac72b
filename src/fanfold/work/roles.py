"""Traffic by role in one step of a system with a parameter server (draft-ai-traffic-00, A.2).

Producers hand tokens to managers, managers to workers; workers send gradients to the aggregator
and get weights back; an inference engine gets the new weights; the orchestrator hears a status
of every other node and answers it. Letters: N = workers, E = engines, B = bytes of the weights.
"""

from typing import Literal, NamedTuple

from fanfold.work.serving import TOKEN_ID_BYTES

Role = Literal[
    "producer", "manager", "worker", "aggregator", "inference engine", "orchestrator"
]
STATUS_BYTES = 256
"""A status and its answer: our assumption, far below everything else."""


class Traffic(NamedTuple):
    """Of one node of a role, in one step. fan_sends_bytes: where one copy serves all."""

    role: Role
    nodes: int
    gets_bytes: int
    sends_bytes: int
    fan_sends_bytes: int
    peers: int


def traffic_by_role(n_bytes: int, workers: int, engines: int, n_tokens: int) -> list[Traffic]:
    """A row for each role, with one producer, manager, aggregator and orchestrator.

    Args:
        n_bytes: weights, and gradients likewise. n_tokens: of the step, of all workers.
    """
    batch = n_tokens * TOKEN_ID_BYTES
    share = -(-batch // workers)
    served = workers + engines
    told = served + 3  # producer, manager, aggregator
    s = STATUS_BYTES
    return [
        Traffic("producer", 1, s, batch + s, batch + s, 2),
        Traffic("manager", 1, batch + s, share * workers + s, share * workers + s, workers + 2),
        Traffic("worker", workers, share + n_bytes + s, n_bytes + s, n_bytes + s, 3),
        Traffic(
            "aggregator",
            1,
            workers * n_bytes + s,
            served * n_bytes + s,
            n_bytes + s,
            served + 1,
        ),
        Traffic("inference engine", engines, n_bytes + s, s, s, 2),
        Traffic("orchestrator", 1, told * s, told * s, s, told),
    ]
