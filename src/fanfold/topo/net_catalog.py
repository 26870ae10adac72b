"""Every net that can be asked for by name, and every file that can be read as one.

A new one is one file and one row. ``nets.build_named_net`` reads names and values.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fanfold.topo.limits import MAX_HOSTS, MAX_K, MAX_ROUTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fanfold.topo.net import Net
    from fanfold.topo.sketch import Line


class Late:
    """A function of a file beside this one, imported when called: a list loads no numpy."""

    def __init__(self, file: str, name: str) -> None:
        self.__module__, self.__name__ = f"fanfold.topo.{file}", name

    def __call__(self, *args: Any, **named: Any) -> "Net":
        """Call it."""
        net: Net = getattr(import_module(self.__module__), self.__name__)(*args, **named)
        return net


class Param(NamedTuple):
    """One value of a name: its kind, what it is when left out (None: it may not be), range."""

    name: str
    kind: Literal["count", "dims", "rate", "delay"] = "count"
    default: str | None = None
    low: int = 1
    high: int = MAX_HOSTS


class NetRow(NamedTuple):
    """A name, the function that builds the net, its values, a small example, and what it is.

    is_seeded: takes ``seed``. rate: of cables where the name gives none.
    """

    name: str
    build: Callable[..., "Net"]
    params: tuple[Param, ...]
    example: str
    summary: str
    is_seeded: bool = False
    rate: str = "100Gbps"


class FileRow(NamedTuple):
    """Ending of a file, the function that reads it, and what it is."""

    suffix: str
    load: "Callable[[Path, Line], Net]"
    summary: str


_HOSTS = Param("hosts")
_ROUTERS = Param("hosts", low=2, high=MAX_ROUTERS)

NET_CATALOG: tuple[NetRow, ...] = (
    NetRow(
        "fat-tree",
        Late("fat_tree", "fat_tree"),
        (Param("k", low=2, high=MAX_K),),
        "k=4",
        "three tiers, k pods",
    ),
    NetRow(
        "leaf-spine",
        Late("leaf_spine", "leaf_spine"),
        (Param("leaves"), Param("spines"), _HOSTS, Param("spine-rate", "rate", "same")),
        "leaves=4,spines=2,hosts=16",
        "two tiers, every leaf linked to every spine",
    ),
    NetRow(
        "rail",
        Late("rail", "rail"),
        (
            *(Param("servers"), Param("gpus", default="8", high=64), Param("spines")),
            Param("unit", default="0", low=0),
            Param("inner-rate", "rate", "3600Gbps"),
            Param("inner-delay", "delay", "250ns"),
        ),
        "servers=4,gpus=4,spines=2,unit=2",
        "one leaf for GPU i of many servers, an inner switch for each server",
        rate="400Gbps",
    ),
    NetRow(
        "superpod",
        Late("superpod", "superpod"),
        (
            *(Param("gpus", default="64"), Param("planes", default="4", high=64)),
            *(Param("legs", default="2", high=8), Param("ports", default="128")),
        ),
        "gpus=64",
        "scale-up planes of one leaf each, ports split by Y-cables",
        rate="400Gbps",
    ),
    NetRow(
        "multi-plane",
        Late("multi_plane", "multi_plane"),
        (
            *(Param("planes", high=64), Param("leaves"), Param("spines"), _HOSTS),
            *(Param("pods", default="1"), Param("cores", default="0", low=0)),
        ),
        "planes=2,leaves=4,spines=2,hosts=16",
        "a leaf-spine for each port of a host, or pods of these below cores",
        rate="400Gbps",
    ),
    NetRow(
        "dragonfly",
        Late("dragonfly", "dragonfly"),
        (Param("a", high=128), Param("p", high=128), Param("h", high=128)),
        "a=4,p=2,h=2",
        "groups of joined routers, one cable between every two groups",
    ),
    NetRow(
        "torus",
        Late("torus", "torus"),
        (Param("dims", "dims", high=MAX_ROUTERS),),
        "dims=4x3x2",
        "a grid of any dimensions, joined around",
    ),
    NetRow(
        "hypercube",
        Late("hypercube", "hypercube"),
        (Param("n", high=11),),
        "n=4",
        "routers joined where one bit of their numbers differs",
    ),
    NetRow(
        "full-mesh",
        Late("full_mesh", "full_mesh"),
        (Param("hosts", low=2, high=2048),),
        "hosts=8",
        "every two routers joined",
    ),
    NetRow("star", Late("star", "star"), (_HOSTS,), "hosts=8", "all hosts on one router"),
    NetRow(
        "ring",
        Late("ring", "ring"),
        (Param("hosts", low=3, high=MAX_ROUTERS),),
        "hosts=9",
        "each router joined to the next",
    ),
    NetRow(
        "random",
        Late("random_regular", "random_regular"),
        (_ROUTERS, Param("degree", default="4", low=2, high=64)),
        "hosts=20,degree=3",
        "peer to peer: a random graph in which all routers have one degree",
        is_seeded=True,
    ),
    NetRow(
        "clustered",
        Late("clustered", "clustered"),
        (
            *(Param("clusters", high=1024), _HOSTS),
            Param("proxy-rate", "rate", "10Gbps"),
            Param("proxy-delay", "delay", "1ms"),
        ),
        "clusters=3,hosts=12",
        "hosts around proxies, proxies joined by slower lines",
    ),
    NetRow(
        "wan",
        Late("wan", "wan"),
        (
            *(Param("sites", low=2, high=1024), _HOSTS, Param("leaves", default="1")),
            Param("border-rate", "rate", "400Gbps"),
            Param("km", default="3000", high=20_000),
        ),
        "sites=5,hosts=4,leaves=2",
        "data centers with lines of different rates and delays between them",
        is_seeded=True,
    ),
)

FILE_CATALOG: tuple[FileRow, ...] = (
    FileRow(
        ".json",
        Late("graph_file", "load_node_link"),
        "node-link JSON, as graph libraries write it",
    ),
    FileRow(".graphml", Late("graph_file", "load_graphml"), "GraphML"),
    FileRow(
        ".gml",
        Late("gml_file", "load_gml"),
        "GML, as the Topology Zoo and graph libraries write it",
    ),
    FileRow(
        ".yml",
        Late("astra_topo", "load_astra_topo"),
        "network of ASTRA-sim's analytical backends",
    ),
    FileRow(
        ".txt",
        Late("text_topo", "load_text_topo"),
        "ns-3's RDMA topology (HPCC, SimAI), or ibnetdiscover's output",
    ),
    FileRow(
        ".conf", Late("slurm_topo", "load_slurm_topo"), "Slurm's topology.conf, topology/tree"
    ),
    FileRow(
        ".topo",
        Late("htsim_topo", "load_htsim_topo"),
        "fat tree or leaf-spine in csg-htsim's form",
    ),
    FileRow(
        ".toml",
        Late("fabric_net", "load_fabric_net"),
        "fabric of a lab, as `fanfold lab up --config` takes it",
    ),
)
