"""`fanfold push --avoid-gray`: a lab's tables without the links that a push named gray.

Between pushes: what a push showed is for the next one. Links that are left out, and since when,
are kept in the lab's folder; `lab down` forgets them.
"""

from collections.abc import Mapping

import msgspec

from fanfold.api.reroute import install, rerouted
from fanfold.errors import ConfigError
from fanfold.live.clock import unix_ns
from fanfold.live.lab import AVOIDED, Lab
from fanfold.push.avoided import AvoidedLink, Book, due, judge
from fanfold.push.gray import Way
from fanfold.push.result import PushResult
from fanfold.topo.bift import table_rows
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_routes import FabricRoutes

NS_PER_S = 10**9


def begin_avoiding(lab: Lab) -> list[str]:
    """Give tables the links back that are to be tried; lines for whoever watches."""
    book, fabric = _load(lab), lab.fabric()
    tried = due(book, fabric, unix_ns() // NS_PER_S)
    lines = [f"on trial again: {name}" for name in tried]
    if tried:
        lines += _put(lab, rerouted(fabric, (), tried, ()))
    _save(lab, book)
    return lines


def end_avoiding(lab: Lab, result: PushResult) -> PushResult:
    """Leave out what a push named gray, where there is another way; the result tells of it."""
    book, fabric = _load(lab), lab.fabric()
    cut: list[str] = []

    def may_cut(name: str) -> bool:
        is_all = _reached(rerouted(fabric, [*cut, name], (), ()), result.source)
        is_as_before = is_all >= _reached(fabric, result.source)
        cut.extend([name] if is_as_before else [])
        return is_as_before

    now_s = unix_ns() // NS_PER_S
    fates: list[AvoidedLink] = judge(
        book, fabric, result.gray, _carried(result), now_s, may_cut
    )
    lines = [fate.words() for fate in fates]
    if cut:
        lines += _put(lab, rerouted(fabric, cut, (), ()))
    _save(lab, book)
    return msgspec.structs.replace(result, avoided=fates, notes=result.notes + lines)


def _put(lab: Lab, fabric: Fabric) -> list[str]:
    failed = install(lab, fabric)
    return [f"{node} keeps its old table: {error}" for node, error in failed.items()]


def _reached(fabric: Fabric, source: str) -> set[int]:
    """BFR-ids that a host's tables lead to."""
    rows = table_rows(FabricRoutes(fabric), source)
    return {int(row["bfr_id"]) for row in rows if row["nbrs"]}


def _carried(result: PushResult) -> Mapping[Way, int]:
    return {
        (row.src, row.dst): row.packets + row.repair_packets + row.feedback_packets
        for row in result.links
    }


def _load(lab: Lab) -> Book:
    try:
        return msgspec.json.decode((lab.folder / AVOIDED).read_bytes(), type=Book)
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ConfigError(str(lab.folder / AVOIDED), str(error), "what a push wrote") from error


def _save(lab: Lab, book: Book) -> None:
    fresh = lab.folder / f"{AVOIDED}.new"
    fresh.write_bytes(msgspec.json.encode(book))
    fresh.replace(lab.folder / AVOIDED)
