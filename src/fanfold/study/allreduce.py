"""Study: one training iteration: computing, then gradients summed over all replicas.

Tensor-parallel and pipeline traffic counts as computing here. Nothing overlaps: gradients wait
for the whole backward pass. fanfold and sharp add up in the network. With every other scheme
hosts add: multicast ones along a tree of hosts, and hand the sums out by multicast.
"""

import msgspec
import numpy as np

from fanfold.errors import ConfigError
from fanfold.study.ask import TFLOPS, Setting
from fanfold.study.fabrics import GPUS_PER_SERVER
from fanfold.study.gpu_time import TERA
from fanfold.study.keys import Key
from fanfold.study.model_push import topology_of
from fanfold.study.phases import Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.work.collective import Collective
from fanfold.work.parallel import Degrees, Transfer, plan_iteration
from fanfold.work.steps import compute_ps

KEYS = (
    TFLOPS,
    Key("tp", "count", "", "tensor-parallel degree: the GPUs of a server, or fewer"),
    Key("pp", "count", "1", "pipeline stages"),
    Key("batch", "count", "8", "sequences of a replica in an iteration"),
    Key("seq", "count", "4096", "tokens of a sequence"),
    Key("slots", "count", "16384", "of a router for arrays, of all groups", 8, 2**20),
)
SCHEMES = ("halving-doubling", "parameter-server", "sharp")
"""Beside those of every study: they do nothing but sums, or sums best."""
METRICS = (
    "step_ps",
    "time_all_ps",
    "utilisation_ppm",
    "idle_gpu_ps",
    "source_bytes",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "setup_ps",
    "saved_bytes",
)


def graph(setting: Setting, style: Style) -> Graph:
    """Computing, then a phase for each kind of gradients.

    Raises:
        ConfigError: degrees that do not fit, or a single replica.
    """
    del style
    degrees = _degrees(setting)
    sums = [t for t in plan_iteration(setting.model, degrees) if t.parallelism == "DP"]
    if not sums:
        raise ConfigError("--gpus", setting.gpus, f"2 x {degrees.tp * degrees.pp} or more")
    busy = compute_ps(setting.model, degrees, setting.number("tflops") * TERA)
    phases = [Phase("compute", compute_ps=np.full(setting.gpus, busy, np.int64))]
    for transfer in sums:
        phases.append(Phase(transfer.name, (phases[-1].name,), collectives=_groups(transfer)))
    return Graph(
        topology=topology_of(setting, setting.gpus),
        n_hosts=setting.gpus,
        gpus=setting.gpus,
        phases=tuple(phases),
        defaults=_defaults(degrees, sums),
        array_slots=setting.number("slots"),
    )


def _degrees(setting: Setting) -> Degrees:
    heads = setting.model.attention.n_heads
    fits = [t for t in range(1, GPUS_PER_SERVER + 1) if setting.gpus % t == heads % t == 0]
    small = [t for t in fits if 2 * t <= setting.gpus]
    return msgspec.structs.replace(
        setting.degrees,
        gpus=setting.gpus,
        tp=setting.number("tp") or max(small, default=1),
        pp=setting.number("pp"),
        ep=1,
        zero=0,
        micro_batch=1,
        n_micro=setting.number("batch"),
        seq=setting.number("seq"),
    )


def _groups(transfer: Transfer) -> tuple[Collective, ...]:
    return tuple(transfer.collective(i) for i in range(len(transfer.groups)))


def _defaults(degrees: Degrees, sums: list[Transfer]) -> tuple[Default, ...]:
    n_bytes = sum(t.n_bytes for t in sums)
    shape = f"tp {degrees.tp}, pp {degrees.pp}, dp {degrees.dp}"
    return (
        Default("degrees", shape, "keys tp, pp; replicas are what is left"),
        Default("gradients", f"{n_bytes:,} bytes of each GPU", f"in {degrees.grad_dtype}"),
        Default("overlap", "none", "gradients wait for the whole backward pass"),
        Default("sums", "in switches by fanfold and sharp, else at hosts", "as schemes do it"),
    )
