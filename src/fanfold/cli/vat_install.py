"""`fanfold vat --install`: trees of a file made on the nodes of a running fabric, or undone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fanfold.api.lab_status import no_such_lab
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.control_sockets import Answer, Call, Where, ask_all
from fanfold.live.lab import Lab
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric
from fanfold.topo.vat_file import VatFile
from fanfold.topo.vat_laid import LaidTree, lay_trees

PATIENCE_S = 3.0
MOST_GROUP = 2**32 - 1


class Place(NamedTuple):
    """A running fabric, and the control sockets of its nodes."""

    fabric: Fabric
    control_sockets: dict[str, Where]


def place_of(where: str) -> Place:
    """A lab by its name, or nodes that were started by hand with a fabric file.

    Raises:
        ConfigError: neither a lab that is up nor a file.
    """
    if where.endswith(".toml"):
        fabric = load_fabric(Path(where))
        return Place(fabric, {n.name: (n.address, fabric.port) for n in fabric.nodes})
    lab = Lab(where)
    if not lab.is_up():
        raise no_such_lab(where)
    fabric = lab.fabric()
    return Place(fabric, {node.name: lab.control_socket(node.name) for node in fabric.nodes})


def install(place: Place, file: VatFile, group: int) -> tuple[LaidTree, ...]:
    """Make the tree of job j for group ``group`` + j on all nodes, or on none.

    Raises:
        ConfigError: trees that the fabric cannot have. EnvironmentLack: a node that does not
            answer, or has no room.
    """
    trees = lay_trees(place.fabric, file)
    if not 0 <= group <= MOST_GROUP + 1 - len(trees):
        raise ConfigError("--group", group, f"0..{MOST_GROUP + 1 - len(trees)}")
    try:
        for j, tree in enumerate(trees):
            rows = {row.at: row for row in tree.rows}
            asked = {
                at: {
                    "do": "vat",
                    "group": group + j,
                    "a_bm": row.a_bm,
                    "up": row.up,
                    "slots": row.slots,
                    "tenant": _tenant(place, tree),
                }
                for at, row in rows.items()
            }
            answers = _ask(place, asked)
            for at, answer in answers.items():
                _check(at, answer, rows[at].slots)
    except EnvironmentLack:
        remove(place, trees, group)
        raise
    return trees


def remove(place: Place, trees: Sequence[LaidTree], group: int) -> None:
    """Undo what ``install`` made; nodes that do not answer have none of it any more."""
    for j, tree in enumerate(trees):
        gone = {
            "do": "vat",
            "group": group + j,
            "is_over": True,
            "tenant": _tenant(place, tree),
        }
        _ask(place, {row.at: gone for row in tree.rows})


def _tenant(place: Place, tree: LaidTree) -> str:
    """Whose ranks a tree has, empty where they are no tenant's."""
    ranks = [bfr_id for row in tree.rows for bfr_id in row.a_bm]
    return place.fabric.tenant_name(place.fabric.by_bfr_id[ranks[0]].name) if ranks else ""


def _ask(place: Place, asked: dict[str, dict[str, Any]]) -> dict[str, Answer]:
    calls = {at: Call(place.control_sockets[at], request) for at, request in asked.items()}
    return ask_all(calls, PATIENCE_S)


def _check(at: str, answer: Answer, n_slots: int) -> None:
    if "error" in answer:
        raise EnvironmentLack(f"{at}: {answer['error']}; no tree was installed")
    if not answer.get("ok") or answer.get("slots") != n_slots:
        got = f"{answer.get('slots', 0)} of {n_slots} slots"
        raise EnvironmentLack(f"{at}: has {got} for the tree; no tree was installed")
