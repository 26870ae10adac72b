"""What goes on in a fabric between two rounds of questions to its nodes: rates, folds, events.

A round is what each node answered; nothing here asks, waits or reads a clock.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fanfold.live.control_sockets import Answer
from fanfold.live.status import Classes, LinkStatus, NodeStatus, Statuses, read_all
from fanfold.push.gray import GrayLink
from fanfold.push.gray_counts import Rounds
from fanfold.topo.fabric import Fabric

MOST_EVENTS = 12
NS_PER_SECOND = 1_000_000_000
Counts = Mapping[str, int]
DATA = ("data", "repair")


class LinkView(msgspec.Struct, frozen=True):
    """One direction of a link. Per second: packets, bits, repairs, words, and drops by reason.

    gray: share of packets that it loses or damages, where that is not chance.
    """

    src: str = msgspec.field(name="from")
    dst: str = msgspec.field(name="to")
    packets: float
    bps: float
    repairs: float
    words: float
    drops: dict[str, float]
    gray: float = 0.0


class NodeView(msgspec.Struct, frozen=True):
    """One node; per second where not said otherwise.

    state: up, or silent. fans: copies of DATA sent. copies: of each packet that came, in all.
    folds: words merged. fold_ratio: of each word that went on. slots: in use now. hits: packets
    repaired from its cache. up, down: neighbours.
    """

    name: str
    role: str
    state: str
    fans: float = 0.0
    copies: float = 0.0
    folds: float = 0.0
    fold_ratio: float = 0.0
    slots: int = 0
    hits: float = 0.0
    up: int = 0
    down: tuple[str, ...] = ()
    drops: float = 0.0


class View(msgspec.Struct, frozen=True):
    """A fabric in one interval. events: what failed or came back, latest last."""

    fabric: str
    seconds: float
    nodes: list[NodeView]
    links: list[LinkView]
    gray: list[GrayLink]
    events: list[str]


class Observer:
    """Takes rounds one by one and tells what changed since the one before."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._rounds = Rounds(fabric)
        self._old: Statuses = {}
        self._answers: Mapping[str, Answer] = {}
        self._at_ns = 0
        self._events: deque[str] = deque(maxlen=MOST_EVENTS)
        self._gray: frozenset[tuple[str, str, str]] = frozenset()

    def take(self, answers: Mapping[str, Answer], at_ns: int) -> View | None:
        """One more round, of that time; None after the first one."""
        now = read_all(self.fabric, answers)
        before, was_ns = self._answers, self._at_ns
        old, self._old = self._old, now
        gray = self._rounds.take(now)
        self._answers, self._at_ns = answers, at_ns
        if not was_ns:
            return None
        self._events.extend(_changes(self.fabric, old, now, before, answers))
        self._note_gray(gray)
        seconds = max(at_ns - was_ns, 1) / NS_PER_SECOND
        return View(
            fabric=self.fabric.name,
            seconds=round(seconds, 3),
            nodes=[self._node(n.name, n.role, before, seconds) for n in self.fabric.nodes],
            links=self._links(old, now, seconds, gray),
            gray=gray,
            events=list(self._events),
        )

    def _note_gray(self, gray: Iterable[GrayLink]) -> None:
        named = {(g.src, g.dst, g.kind): g for g in gray}
        for way in sorted(named.keys() - self._gray):
            self._events.append(named[way].words())
        self._gray = frozenset(named)

    def _node(
        self, name: str, role: str, before: Mapping[str, Answer], seconds: float
    ) -> NodeView:
        answer, old = self._answers.get(name, {}), before.get(name, {})
        if "links" not in answer:
            return NodeView(name, role, "silent")
        if answer.get("pid") != old.get("pid"):
            old = {}
        folds, cache = answer.get("folds", {}), answer.get("cache", {})
        sent, came = (_data(answer, way) - _data(old, way) for way in ("tx", "rx"))
        near = answer.get("neighbours", {})
        out = folds.get("complete", 0) + folds.get("partial", 0)
        return NodeView(
            name=name,
            role=role,
            state="up",
            fans=_rate(sent, seconds),
            copies=round(sent / came, 2) if came > 0 else 0.0,
            folds=_rate(_more(folds, old.get("folds", {}), "merged"), seconds),
            fold_ratio=round(folds.get("merged", 0) / out, 2) if out else 0.0,
            slots=sum(used for used, _ in answer.get("slots", {}).values()),
            hits=_rate(_more(cache, old.get("cache", {}), "hit"), seconds),
            up=sum(row["state"] == "up" for row in near.values()),
            down=tuple(to for to, row in near.items() if row["state"] == "down"),
            drops=_rate(
                sum(answer["drops"].values()) - sum(old.get("drops", {}).values()), seconds
            ),
        )

    def _links(
        self, old: Statuses, now: Statuses, seconds: float, gray: Iterable[GrayLink]
    ) -> list[LinkView]:
        rates = {(g.src, g.dst): g.rate for g in reversed(list(gray))}
        found = []
        for link in self.fabric.links:
            for src, dst in ((link.a, link.b), (link.b, link.a)):
                grown = _grown(old, now, src, dst)
                if grown is not None:
                    parts = {word: _rate(n, seconds) for word, n in grown.items()}
                    packets, bps = parts.pop("packets"), parts.pop("bits")
                    repairs, words = parts.pop("repairs"), parts.pop("words")
                    share = rates.get((src, dst), 0.0)
                    found.append(LinkView(src, dst, packets, bps, repairs, words, parts, share))
        return found


def _grown(old: Statuses, now: Statuses, src: str, dst: str) -> dict[str, int] | None:
    """What a direction carried since; drops of both ends by reason. None: not known.

    The end that counted more says how much: a push has a process of its own at its host, which
    nobody asks.
    """
    near, far = (_pair(old, now, name, to) for name, to in ((src, dst), (dst, src)))
    told = [_carried(*(row.tx for row in near))] if near else []
    told += [_carried(*(row.rx for row in far))] if far else []
    if not told:
        return None
    drops: dict[str, int] = {}
    pairs = [tuple(row.lost for row in near)] if near else []
    pairs += [tuple(row.drops for row in far)] if far else []
    for before, after in pairs:
        for word, n in after.items():
            drops[word] = drops.get(word, 0) + n - before.get(word, 0)
    most = max(told, key=lambda each: each["packets"])
    return most | {word: n for word, n in drops.items() if n > 0}


def _pair(
    old: Statuses, now: Statuses, name: str, to: str
) -> tuple[LinkStatus, LinkStatus] | None:
    """What the same process of a node said twice of a link."""
    if name not in old or name not in now or old[name].pid != now[name].pid:
        return None
    rows = old[name].links.get(to), now[name].links.get(to)
    return (rows[0], rows[1]) if rows[0] and rows[1] else None


def _carried(old: Classes, now: Classes) -> dict[str, int]:
    def grown(kinds: Iterable[str], i: int) -> int:
        return sum(now.get(k, (0, 0))[i] - old.get(k, (0, 0))[i] for k in kinds)

    return {
        "packets": grown(now, 0),
        "bits": 8 * grown(now, 1),
        "repairs": grown(["repair"], 0),
        "words": grown(["feedback"], 0),
    }


def _changes(
    fabric: Fabric,
    old: Statuses,
    now: Statuses,
    before: Mapping[str, Answer],
    answers: Mapping[str, Answer],
) -> list[str]:
    """What failed or came back between two rounds, in words."""
    told = []
    for name in fabric.by_name:
        if name not in now:
            told += [f"{name} answers nothing"] if name in old else []
        elif name not in old:
            told.append(f"{name} answers again")
        elif old[name].pid != now[name].pid:
            told.append(f"{name} was started anew")
        else:
            told += _near(name, old[name], now[name])
            was_down, is_down = (at[name].get("links_down", []) for at in (before, answers))
            without = f"tables without {', '.join(is_down)}" if is_down else "tables as given"
            told += [f"{name}: {without}"] if was_down != is_down else []
    return told


def _near(name: str, old: NodeStatus, now: NodeStatus) -> list[str]:
    """What a node noticed of its neighbours."""
    told = []
    for to, row in now.neighbours.items():
        was = old.neighbours.get(to)
        if was and was.state != row.state:
            told.append(f"{name}: {to} is {row.state}")
        elif was and row.falls > was.falls:
            told.append(f"{name}: {to} was lost and is {row.state}")
    return told


def _data(answer: Answer, way: str) -> int:
    """Packets of DATA, repairs too, over all links of a node."""
    links: Mapping[str, Any] = answer.get("links", {})
    return sum(link[way].get(kind, (0, 0))[0] for link in links.values() for kind in DATA)


def _more(now: Counts, old: Counts, word: str) -> int:
    return now.get(word, 0) - old.get(word, 0)


def _rate(n: int, seconds: float) -> float:
    return round(max(n, 0) / seconds, 1)
