"""Every topology that can be asked for by name; a new one is one file and one row here."""

from collections.abc import Callable
from typing import NamedTuple

from fanfold.topo import clos
from fanfold.topo.fabric import Fabric


class Topology(NamedTuple):
    """A name, the function that builds the fabric, and what it looks like."""

    name: str
    build: Callable[..., Fabric]
    summary: str


CATALOG: tuple[Topology, ...] = (
    Topology("leaf_spine", clos.leaf_spine, "two tiers, every leaf linked to every spine"),
)
