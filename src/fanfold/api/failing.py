"""Failures of a lab by hand: links, nodes, pauses, links that lose; `fanfold lab fail`, `heal`.

What has failed is kept in the lab's folder, so that a node that starts again meets it again.
"""

import os
import signal
from collections.abc import Iterable
from typing import Any

import msgspec

from fanfold.api.plane_faults import PLANE_KINDS, set_down, usual_name
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.live.control_sockets import Call, ask_all, call
from fanfold.live.lab import FAILURES, SUPERVISOR, Lab, process_state
from fanfold.topo.fabric import Fabric, Link
from fanfold.units import (
    PPB_ONE,
    PS_PER_SECOND,
    format_duration,
    format_rate,
    parse_duration,
    parse_probability,
    parse_rate,
)

KINDS = ("link", "node", "pause", "gray", "slow", "port-corrupt", *PLANE_KINDS)
SHARE = "a share of packets such as 1%"
TAKES = {"pause": "a duration such as 3s", "gray": SHARE, "port-corrupt": SHARE}
TAKES["slow"] = "a rate such as 50Mbps"
"""What stands behind the name, for kinds that take anything."""
ASK_S = 3.0
LONGEST_PS = 3600 * PS_PER_SECOND


class Failures(msgspec.Struct):
    """What has failed by hand.

    links: cut ones, by name. gray: of 10^9 packets so many are lost, each way. slow: bits per
    second that pass, each way. corrupt: so many of 10^9 are damaged that come to a node from a
    neighbour, by "node-neighbour". nodes: ended. planes: kinds and names of ports, half cables
    and leaves that are down (plane_faults.py).
    """

    links: list[str] = []
    gray: dict[str, int] = {}
    corrupt: dict[str, int] = {}
    nodes: list[str] = []
    planes: list[tuple[str, str]] = []
    slow: dict[str, int] = {}

    def words(self) -> list[str]:
        """As they would be given to ``lab fail``."""
        return [
            *(f"link {name}" for name in self.links),
            *(f"gray {name} {ppb * 100 / PPB_ONE:g}%" for name, ppb in self.gray.items()),
            *(
                f"port-corrupt {name} {ppb * 100 / PPB_ONE:g}%"
                for name, ppb in self.corrupt.items()
            ),
            *(f"slow {name} {_rate(bps)}" for name, bps in self.slow.items()),
            *(f"node {name}" for name in self.nodes),
            *(f"{kind} {name}" for kind, name in self.planes),
        ]


def failures_of(lab: Lab) -> Failures:
    """What has failed by hand in a lab; nothing where its file says nothing sound."""
    try:
        return msgspec.json.decode((lab.folder / FAILURES).read_bytes(), type=Failures)
    except (OSError, msgspec.DecodeError):
        return Failures()


def fail(lab: Lab, kind: str, name: str, amount: str = "") -> str:
    """Let one thing fail; what was done, in words.

    Raises:
        ConfigError: no such kind, link, node or amount. EnvironmentLack: the lab is not up.
        CheckFailed: a node did not take it.
    """
    fabric = lab.fabric()
    if kind not in KINDS:
        raise ConfigError("WHAT", kind, ", ".join(KINDS))
    if bool(amount) != (kind in TAKES):
        allowed = TAKES.get(kind, "nothing")
        raise ConfigError(f"{kind} {name}", amount or "nothing behind it", allowed)
    known = failures_of(lab)
    match kind:
        case "link":
            link = name_of(_link(fabric, name))
            _tell(lab, fabric, known, links=[*(x for x in known.links if x != link), link])
            return f"link {link} is cut"
        case "gray" | "slow" | "port-corrupt":
            return _impair(lab, fabric, known, kind, name, amount)
        case _ if kind in PLANE_KINDS:
            name = usual_name(lab, kind, name)
            down = [*(x for x in known.planes if x != (kind, name)), (kind, name)]
            set_down(lab, down)
            _keep(lab, msgspec.structs.replace(known, planes=down))
            return f"{kind} {name} is down"
        case "node":
            _end(lab, fabric, name)
            nodes = [*(x for x in known.nodes if x != name), name]
            _keep(lab, msgspec.structs.replace(known, nodes=nodes))
            return f"node {name} is ended"
        case _:
            return _pause(lab, fabric, name, amount)


def _impair(
    lab: Lab, fabric: Fabric, known: Failures, kind: str, name: str, amount: str
) -> str:
    """Let packets of a link, or those that come in by a port, be lost, damaged or late."""
    link = name_of(_link(fabric, name))
    if kind == "gray":
        ppb = parse_probability(amount, f"gray {name}")
        _tell(lab, fabric, known, gray=known.gray | {link: ppb})
        return f"link {link} loses {amount} of packets each way"
    if kind == "slow":
        bps = parse_rate(amount, f"slow {name}")
        _tell(lab, fabric, known, slow=known.slow | {link: bps})
        return f"link {link} carries {_rate(bps)} each way"
    node, to = _port(fabric, name)
    ppb = parse_probability(amount, f"port-corrupt {name}")
    _tell(lab, fabric, known, corrupt=known.corrupt | {f"{node}-{to}": ppb})
    return f"{amount} of the packets that {node} takes from {to} are damaged"


def heal(lab: Lab, names: Iterable[str] = ()) -> list[str]:
    """Mend links and nodes by name, or all that has failed; what was mended, in words.

    Raises:
        ConfigError: a name of nothing that has failed. CheckFailed: a node did not take it.
    """
    fabric, known = lab.fabric(), failures_of(lab)
    paused = [node for node in fabric.by_name if _is_paused(lab, node)]
    at_links = *known.links, *known.gray, *known.slow, *known.corrupt
    wrong = {
        *at_links,
        *known.nodes,
        *paused,
        *(name for _, name in known.planes),
    }
    some = [name if name in wrong else _usual(fabric, name) for name in names]
    for name in some:
        if name not in wrong:
            raise ConfigError("heal", name, ", ".join(sorted(wrong)) or "nothing: all is well")
    mended = [name for name in at_links if not some or name in some]
    for node in paused:
        if not some or node in some:
            call(lab.control_socket(SUPERVISOR), {"do": "resume", "node": node}, ASK_S)
            mended.append(node)
    if any(name in mended for name in at_links):
        links = [name for name in known.links if name not in mended]
        gray = {name: ppb for name, ppb in known.gray.items() if name not in mended}
        corrupt = {name: ppb for name, ppb in known.corrupt.items() if name not in mended}
        slow = {name: bps for name, bps in known.slow.items() if name not in mended}
        left = {"links": links, "gray": gray, "corrupt": corrupt, "slow": slow}
        known = _tell(lab, fabric, known, **left)
    known, broken = _heal_planes(lab, known, some)
    mended += broken
    for node in known.nodes:
        if not some or node in some:
            restart(lab, node)
            mended.append(node)
    return list(dict.fromkeys(mended))


def _heal_planes(lab: Lab, known: Failures, some: list[str]) -> tuple[Failures, list[str]]:
    """Bring ports, half cables and leaves up again: those named, or all of them."""
    broken = [name for _, name in known.planes if not some or name in some]
    if broken:
        down = [pair for pair in known.planes if pair[1] not in broken]
        set_down(lab, down)
        known = msgspec.structs.replace(known, planes=down)
        _keep(lab, known)
    return known, broken


def restart(lab: Lab, node: str) -> dict[str, Any]:
    """Start a node again, with what has failed at its links."""
    told = lab.restart(node)
    known = failures_of(lab)
    if node in known.nodes:
        known.nodes.remove(node)
        _keep(lab, known)
    if known.links or known.gray or known.slow or known.corrupt:
        fabric = lab.fabric()
        _require(_ask(lab, fabric, known, [node]))
    return told


def _rate(bps: int) -> str:
    """A rate as it would be given, all of it."""
    text = format_rate(bps).replace(" ", "")
    return text if parse_rate(text, "slow") == bps else f"{bps}bps"


def name_of(link: Link) -> str:
    """A link's name, its nodes in the order of the file."""
    return f"{link.a}-{link.b}"


def words_at(lab: Lab) -> list[str]:
    """What has failed, pauses too, in words."""
    paused = [f"pause {node}" for node in lab.nodes() if _is_paused(lab, node)]
    return [*failures_of(lab).words(), *paused]


def _usual(fabric: Fabric, name: str) -> str:
    return next((name_of(x) for x in fabric.links if f"{x.b}-{x.a}" == name), name)


def _link(fabric: Fabric, name: str) -> Link:
    for link in fabric.links:
        if name in (name_of(link), f"{link.b}-{link.a}"):
            return link
    raise ConfigError("link", name, ", ".join(map(name_of, fabric.links)))


def _port(fabric: Fabric, name: str) -> tuple[str, str]:
    """Node and neighbour of a port: the node that takes packets in is named first."""
    link = _link(fabric, name)
    return (link.a, link.b) if name == name_of(link) else (link.b, link.a)


def _require_node(fabric: Fabric, name: str) -> None:
    if name not in fabric.by_name:
        raise ConfigError("node", name, ", ".join(fabric.by_name))


def _end(lab: Lab, fabric: Fabric, name: str) -> None:
    _require_node(fabric, name)
    entry = lab.nodes()[name]
    if entry["alive"]:
        os.kill(entry["pid"], signal.SIGKILL)


def _pause(lab: Lab, fabric: Fabric, name: str, amount: str) -> str:
    _require_node(fabric, name)
    time_ps = parse_duration(amount, f"pause {name}")
    if not 0 < time_ps <= LONGEST_PS:
        raise ConfigError(f"pause {name}", amount, f"up to {format_duration(LONGEST_PS)}")
    if not lab.nodes()[name]["alive"]:
        raise ConfigError("node", name, "one that lives; see `fanfold lab status`")
    request = {"do": "pause", "node": name, "seconds": time_ps / PS_PER_SECOND}
    answer = call(lab.control_socket(SUPERVISOR), request, ASK_S)
    if "error" in answer:
        raise EnvironmentLack(f"lab {lab.name!r}: {name}: {answer['error']}")
    return f"node {name} is stopped for {format_duration(time_ps)}"


def _is_paused(lab: Lab, node: str) -> bool:
    entry = lab.nodes()[node]
    return bool(entry["alive"]) and process_state(entry["pid"]) == "T"


def _keep(lab: Lab, failures: Failures) -> None:
    fresh = lab.folder / f"{FAILURES}.new"
    fresh.write_bytes(msgspec.json.encode(failures))
    fresh.replace(lab.folder / FAILURES)


def _tell(lab: Lab, fabric: Fabric, known: Failures, **changes: Any) -> Failures:
    """Keep other failures of links, and tell those nodes for which something changes."""
    new = msgspec.structs.replace(known, **changes)
    _keep(lab, new)
    concerned = [n for n in fabric.by_name if _of(new, fabric, n) != _of(known, fabric, n)]
    _require(_ask(lab, fabric, new, concerned))
    return new


def _ask(lab: Lab, fabric: Fabric, failures: Failures, nodes: list[str]) -> dict[str, str]:
    """Tell nodes that live what has failed at their links; who has not taken it, and why."""
    alive = lab.nodes()
    calls = {
        node: Call(
            lab.control_socket(node), {"do": "fail", "links": _of(failures, fabric, node)}
        )
        for node in nodes
        if alive[node]["alive"]
    }
    answers = ask_all(calls, ASK_S)
    return {node: str(a["error"]) for node, a in answers.items() if "error" in a}


def _require(failed: dict[str, str]) -> None:
    if failed:
        who = "; ".join(f"{node}: {error}" for node, error in failed.items())
        raise CheckFailed(f"not taken by {who}")


def _of(failures: Failures, fabric: Fabric, node: str) -> dict[str, Any]:
    """What one node is to be told, by neighbour."""
    told: dict[str, Any] = {}
    for name in dict.fromkeys((*failures.links, *failures.gray, *failures.slow)):
        link = _link(fabric, name)
        if node in (link.a, link.b):
            row = told.setdefault(link.b if node == link.a else link.a, {})
            if name in failures.links:
                row["shut"] = True
            if name in failures.gray:
                row.setdefault("impair", {})["drop_ppb"] = failures.gray[name]
            if name in failures.slow:
                row.setdefault("impair", {})["rate_bps"] = failures.slow[name]
    for name, ppb in failures.corrupt.items():
        at, to = _port(fabric, name)
        if node == at:
            told.setdefault(to, {}).setdefault("impair", {})["corrupt_ppb"] = ppb
    return told
