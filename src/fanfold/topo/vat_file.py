"""Virtual aggregation trees as JSON: jobs, their workers, VAT nodes with A-BMs, all by name.

``slots`` is what each switch has, ``quota`` what the job takes of it at each of its nodes.
``at`` and ``parent`` are names of the topology, an empty parent is the root's. ``a_bm`` is a
list of host names, or a text of zeros and ones, one for each host, the first host on the left
as draft-song-ina-00 has it.
"""

from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.topo.net import Net
from fanfold.topo.vat import NONE, Vat, VatNode, hosts_of, mask_of

MAX_SLOTS = 2**31


class NodeText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One VAT node."""

    at: str
    a_bm: list[str] | str
    parent: str = ""


class JobText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job and its tree."""

    name: str
    workers: list[str]
    nodes: list[NodeText]
    quota: int = 1


class VatFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Trees of several jobs on one topology.

    figures, faults: what ``fanfold vat --json`` says of them; worked out anew when it is read.
    """

    jobs: list[JobText]
    topology: str = ""
    slots: int = 128
    figures: Any = None
    faults: Any = None


def load_vat_file(path: Path) -> VatFile:
    """Read a file; names are not looked up yet.

    Raises:
        ConfigError: it cannot be read, or is not of this form.
    """
    try:
        return msgspec.json.decode(read_input(path), type=VatFile)
    except msgspec.DecodeError as error:
        raise ConfigError(str(path), str(error), "JSON: topology, slots, jobs") from error


def vats_of(net: Net, file: VatFile) -> tuple[Vat, ...]:
    """Trees of a file on a net. They may break any rule of ``vat_rules``.

    Raises:
        ConfigError: a name that the topology does not have, a wrong A-BM, quota or slots.
    """
    index = {net.node_name(node): node for node in range(net.n_nodes)}
    _check_count("slots", file.slots)
    if not file.jobs:
        raise ConfigError("jobs", "nothing", "one job or more")
    names: set[str] = set()
    for i, job in enumerate(file.jobs):
        if job.name in names:
            raise ConfigError(f"jobs[{i}].name", job.name, "another name for each job")
        names.add(job.name)
    return tuple(_vat(net, index, job, f"jobs[{i}]") for i, job in enumerate(file.jobs))


def texts_of(net: Net, vats: tuple[Vat, ...]) -> list[JobText]:
    """Jobs of a file."""
    name = net.node_name
    return [
        JobText(
            vat.job,
            [name(worker) for worker in vat.workers],
            [
                NodeText(
                    name(node.at),
                    [name(host) for host in hosts_of(node.a_bm)],
                    name(node.parent) if node.parent != NONE else "",
                )
                for node in vat.nodes
            ],
            vat.quota,
        )
        for vat in vats
    ]


def _vat(net: Net, index: dict[str, int], job: JobText, where: str) -> Vat:
    _check_count(f"{where}.quota", job.quota)
    workers = _hosts(net, index, job.workers, f"{where}.workers")
    if not workers:
        raise ConfigError(f"{where}.workers", "nothing", "one host or more")
    nodes = []
    for i, node in enumerate(job.nodes):
        own = f"{where}.nodes[{i}]"
        at = _known(index, node.at, f"{own}.at")
        parent = _known(index, node.parent, f"{own}.parent") if node.parent else NONE
        nodes.append(VatNode(at, parent, _a_bm(net, index, node.a_bm, f"{own}.a_bm")))
    return Vat(job.name, workers, tuple(nodes), job.quota)


def _a_bm(net: Net, index: dict[str, int], text: list[str] | str, where: str) -> int:
    if isinstance(text, list):
        return mask_of(_hosts(net, index, text, where))
    if len(text) != net.n_hosts or set(text) - {"0", "1"}:
        allowed = f"{net.n_hosts} zeros and ones, one for each host, or a list of hosts"
        raise ConfigError(where, text, allowed)
    return mask_of(host for host, bit in enumerate(text) if bit == "1")


def _hosts(net: Net, index: dict[str, int], names: list[str], where: str) -> tuple[int, ...]:
    hosts = [_known(index, name, where) for name in names]
    seen: set[int] = set()
    for name, host in zip(names, hosts, strict=True):
        if host >= net.n_hosts:
            raise ConfigError(where, name, "a host; this is a switch")
        if host in seen:
            raise ConfigError(where, name, "each host once")
        seen.add(host)
    return tuple(hosts)


def _known(index: dict[str, int], name: str, where: str) -> int:
    if name not in index:
        raise ConfigError(where, name, "a name of the topology")
    return index[name]


def _check_count(field: str, value: int) -> None:
    if not 1 <= value <= MAX_SLOTS:
        raise ConfigError(field, value, f"1..{MAX_SLOTS}")
