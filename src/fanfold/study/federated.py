"""Study: one round of federated learning: models out, training, models back.

    centralised          a server to all workers, all workers to the server
    semi-decentralised   a head to the workers of its cluster and back, heads to each other
    decentralised        each worker to its nearest neighbours on a ring

Every cluster has a host more than workers: its head; the first head is the server. On the way
back all workers send to one host at once: its queue is the incast of the round.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.study.ask import TFLOPS, Setting
from fanfold.study.fabrics import rate_text
from fanfold.study.gpu_time import TERA
from fanfold.study.keys import Key
from fanfold.study.phases import Cast, Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.units import PS_PER_SECOND
from fanfold.work.model import active_params
from fanfold.work.steps import FLOPS_A_PARAM

FORMS = ("centralised", "semi-decentralised", "decentralised")
KEYS = (
    TFLOPS,
    Key("form", "word", FORMS[0], "draft-ai-traffic-00, figure 3", words=FORMS),
    Key("clusters", "count", "4", "of workers", 2, 1024),
    Key("neighbours", "count", "2", "of a worker on the ring", 2, 1024),
    Key("size", "size", "84MB", "LoRA of rank 16 for 8 billion parameters, about"),
    Key("tokens", "count", "8192", "that a worker trains on in a round (assumed)"),
)
METRICS = (
    "step_ps",
    "time_all_ps",
    "utilisation_ppm",
    "idle_gpu_ps",
    "queue_bytes",
    "source_bytes",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "saved_bytes",
)


def graph(setting: Setting, style: Style) -> Graph:
    """A round of the form that was asked for.

    Raises:
        ConfigError: clusters that do not divide the workers, or too many neighbours.
    """
    del style
    n, clusters = setting.gpus, setting.number("clusters")
    if n % clusters:
        raise ConfigError("clusters", clusters, f"a divisor of {n} workers")
    size = n // clusters + 1
    heads = tuple(range(0, clusters * size, size))
    workers = tuple(host for host in range(clusters * size) if host % size)
    of_head = {head: tuple(range(head + 1, head + size)) for head in heads}
    n_bytes = setting.number("size")
    match setting.word("form"):
        case "centralised":
            phases = _round(setting, {0: workers}, n_bytes)
        case "semi-decentralised":
            phases = _round(setting, of_head, n_bytes)
            across = tuple(
                Cast(head, tuple(h for h in heads if h != head), n_bytes) for head in heads
            )
            phases.append(Phase("across", ("back",), casts=across))
        case _:
            gossip = Phase("gossip", ("train",), casts=_ring(setting, workers, n_bytes))
            phases = [_train(setting), gossip]
    rate = rate_text(setting.number("rate"))
    return Graph(
        topology=setting.word("topology")
        or f"clustered:clusters={clusters},hosts={clusters * size},rate={rate}",
        n_hosts=clusters * size,
        gpus=n,
        phases=tuple(phases),
        defaults=(
            Default("model", f"{n_bytes:,} bytes each way", "key size"),
            Default("between clusters", "10 Gbit/s, 1 ms", "topology clustered"),
            Default("training", f"{setting.number('tokens'):,} tokens a round", "key tokens"),
        ),
    )


def _round(setting: Setting, members: dict[int, tuple[int, ...]], n_bytes: int) -> list[Phase]:
    """Out, training, back."""
    casts = tuple(Cast(head, workers, n_bytes) for head, workers in members.items())
    return [
        Phase("out", casts=casts),
        _train(setting)._replace(needs=("out",)),
        Phase("back", ("train",), casts=casts, way="back"),
    ]


def _train(setting: Setting) -> Phase:
    work = FLOPS_A_PARAM * active_params(setting.model) * setting.number("tokens")
    ps = -(-work * PS_PER_SECOND // (setting.number("tflops") * TERA))
    return Phase("train", compute_ps=np.full(setting.gpus, ps, np.int64))


def _ring(setting: Setting, workers: tuple[int, ...], n_bytes: int) -> tuple[Cast, ...]:
    n, near = len(workers), setting.number("neighbours")
    if near % 2 or near >= n:
        raise ConfigError("neighbours", near, f"even, 2..{n - 1}")
    steps = [d for k in range(1, near // 2 + 1) for d in (k, -k)]
    return tuple(
        Cast(worker, tuple(dict.fromkeys(workers[(i + d) % n] for d in steps)), n_bytes)
        for i, worker in enumerate(workers)
    )
