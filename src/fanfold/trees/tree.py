"""Forwarding tables of one group, and the tree that they make at an instant.

A router looks a packet up by the keys its protocol has, in order; an entry holds where the
packet must come from and where its copies go, never back to where it came from.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

ANY = -1
"""Taken from wherever it comes."""
TUNNEL = -2
"""In place of a link: it came as the payload of a unicast packet."""
NOWHERE = -3
"""In place of a link: there is no path that it could come by."""


class Out(NamedTuple):
    """Where a copy goes: one link, or the links of a unicast path.

    message: kind of message that the copy travels as, empty for plain data.
    """

    links: tuple[int, ...]
    is_tunnel: bool = False
    message: str = ""


class Entry(NamedTuple):
    """What a router does with a packet. n_entries: how many its state counts as."""

    iif: int
    outs: tuple[Out, ...]
    n_entries: int = 1


Table = Mapping[str, Entry]


class Tree(NamedTuple):
    """Links of a tree, each as often as it carries a packet; copies that reach each host.

    n_repeats: times that a router was reached twice the same way; zero without a loop.
    inner: those of the links on which a copy goes on as unicast, to a router further on.
    """

    links: tuple[int, ...]
    hosts: dict[int, int]
    n_repeats: int
    inner: tuple[int, ...] = ()


class Ways(NamedTuple):
    """Hosts, where each link leads, and the same cable the other way."""

    n_hosts: int
    ends: list[int]
    back: list[int]


def to_links(links: set[int]) -> tuple[Out, ...]:
    """A copy over each of these links."""
    return tuple(Out((link,)) for link in sorted(links))


def match(table: Table, keys: tuple[str, ...], in_link: int) -> Entry | None:
    """The first entry that takes a packet that came in there."""
    for key in keys:
        entry = table.get(key)
        if entry is not None and entry.iif in (ANY, in_link):
            return entry
    return None


class Step(NamedTuple):
    """What becomes of a packet at one router: links that copies take, those to routers.

    following: router, and the link that a copy comes in by there. hosts: reached at once.
    """

    links: tuple[int, ...]
    inner: tuple[int, ...]
    following: tuple[tuple[int, int], ...]
    hosts: tuple[int, ...]


NOTHING = Step((), (), (), ())
Steps = dict[int, dict[int, Step]]
"""By router, then by the link that the packet came in by."""


def walk(
    ways: Ways,
    start: int,
    find: Callable[[int, int], Entry | None],
    route: Callable[[Out], tuple[int, ...]],
    kept: Steps,
) -> Tree:
    """Follow a packet from the source's link to all hosts.

    Args:
        find: entry of a router for a packet that came in over a link. route: links that a copy
            really takes, empty where it is lost. kept: steps that are known from walks before,
            and from now on those of this one; a router that has changed is to be left out.
    """
    links, inner, hosts = [start], list[int](), dict[int, int]()
    todo, seen, n_repeats = [(ways.ends[start], start)], set[tuple[int, int]](), 0
    while todo:
        at = todo.pop()
        if at in seen:
            n_repeats += 1
            continue
        seen.add(at)
        node, in_link = at
        mine = kept.get(node)
        if mine is None:
            mine = kept[node] = {}
        step = mine.get(in_link)
        if step is None:
            step = mine[in_link] = _step(ways, in_link, find(node, in_link), route)
        if step is not NOTHING:
            links += step.links
            inner += step.inner
            todo += step.following
            for host in step.hosts:
                hosts[host] = hosts.get(host, 0) + 1
    return Tree(tuple(sorted(links)), hosts, n_repeats, tuple(sorted(inner)))


def _step(
    ways: Ways, in_link: int, entry: Entry | None, route: Callable[[Out], tuple[int, ...]]
) -> Step:
    if entry is None:
        return NOTHING
    n_hosts, ends, back = ways
    came = back[in_link] if in_link >= 0 else NOWHERE
    links, inner, hosts = list[int](), list[int](), list[int]()
    following = list[tuple[int, int]]()
    for out in entry.outs:
        path = route(out) if out.links[0] != came else ()
        if not path:
            continue
        links += path
        inner += path[:-1]
        end = ends[path[-1]]
        if end < n_hosts:
            hosts.append(end)
        else:
            following.append((end, TUNNEL if out.is_tunnel else out.links[-1]))
    return Step(tuple(links), tuple(inner), tuple(following), tuple(hosts))
