"""Study: a checkpoint: each GPU writes its shard to R storage nodes, and waits for all disks.

A node begins to write as soon as something comes, so what is on disk lags by the slower of
network and disk. A shard is durable when each of its nodes has acknowledged all of it.
"""

from fanfold.errors import ConfigError
from fanfold.study.ask import Setting
from fanfold.study.fabrics import fat_tree_of
from fanfold.study.keys import Key
from fanfold.study.phases import Cast, Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.units import PS_PER_SECOND
from fanfold.work.checkpoint import checkpoint_bytes

GPUS_A_NODE = 8
KEYS = (
    Key("replicas", "count", "3", "of each shard; storage systems keep three", 1, 64),
    Key(
        "nodes", "count", "", f"of storage: one for {GPUS_A_NODE} GPUs, no fewer than replicas"
    ),
    Key("disk", "size", "25GB", "that a node writes in a second: four NVMe drives (assumed)"),
    Key("size", "size", "", "weights as stored, and 12 bytes of Adam for each parameter"),
)
METRICS = (
    "durable_ps",
    "time_all_ps",
    "idle_gpu_ps",
    "straggler_ps",
    "source_bytes",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "setup_ps",
    "saved_bytes",
)


def graph(setting: Setting, style: Style) -> Graph:
    """Sending and writing side by side.

    Raises:
        ConfigError: more replicas than storage nodes.
    """
    del style
    gpus, replicas = setting.gpus, setting.number("replicas")
    nodes = setting.number("nodes") or max(-(-gpus // GPUS_A_NODE), replicas)
    if nodes < replicas:
        raise ConfigError("nodes", nodes, f"{replicas} or more, one for each replica")
    n_bytes = setting.number("size") or checkpoint_bytes(setting.model)
    shard = -(-n_bytes // gpus)
    casts = tuple(
        Cast(gpu, tuple(gpus + (gpu * replicas + r) % nodes for r in range(replicas)), shard)
        for gpu in range(gpus)
    )
    held = [0] * nodes
    for cast in casts:
        for host in cast.receivers:
            held[host - gpus] += shard
    disk_ps = -(-max(held) * PS_PER_SECOND // setting.number("disk"))
    return Graph(
        topology=setting.word("topology") or fat_tree_of(gpus + nodes, setting.number("rate")),
        n_hosts=gpus + nodes,
        gpus=gpus,
        phases=(
            Phase("send", casts=casts),
            Phase("disk", idle_ps=disk_ps),
            Phase("durable", ("send", "disk"), idle_ps=0),
        ),
        defaults=(
            Default("state", f"{n_bytes:,} bytes", "weights and optimizer, or key size"),
            Default("storage", f"{nodes} nodes behind the GPUs", "key nodes"),
            Default("GPUs", "wait until all is durable", "a checkpoint that is not overlapped"),
        ),
        durable="durable",
        waits="gpus",
    )
