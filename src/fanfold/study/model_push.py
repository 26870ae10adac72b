"""Study: a model from one GPU to all others, such as the weights of a new version."""

from fanfold.study.ask import Setting
from fanfold.study.fabrics import default_topology
from fanfold.study.keys import Key
from fanfold.study.phases import Cast, Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.work.model import stored_bytes

KEYS = (Key("size", "size", "", "the weights as stored"),)
METRICS = (
    "time_all_ps",
    "time_p50_ps",
    "straggler_ps",
    "idle_gpu_ps",
    "source_bytes",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "setup_ps",
)


def graph(setting: Setting, style: Style) -> Graph:
    """One message from GPU 0 to all others."""
    del style
    n = setting.gpus
    n_bytes = setting.number("size") or weights_of(setting)
    push = Phase("push", casts=(Cast(0, tuple(range(1, n)), n_bytes),))
    return Graph(
        topology=topology_of(setting, n),
        n_hosts=n,
        gpus=n,
        phases=(push,),
        defaults=(
            Default("source", "GPU 0, which has it all", "the rest has nothing yet"),
            Default("bytes", f"{n_bytes:,}", "weights as stored, unless size is given"),
        ),
    )


def topology_of(setting: Setting, n_hosts: int) -> str:
    """The fabric that was named, or the one for so many hosts."""
    return setting.word("topology") or default_topology(n_hosts, setting.number("rate"))


def weights_of(setting: Setting) -> int:
    """Bytes of the weights as stored."""
    return stored_bytes(setting.model)
