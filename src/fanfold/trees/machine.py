"""What every tree protocol is to the world it runs in: handlers, and one entry a key.

A router is a node of the net. Links are directed: a message came in over ``link``, and what is
sent back leaves over ``world.back(link)``. Handlers run on the router's processor, at its turn.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from fanfold.trees.settings import IGMP_QUERY_PS, TreeSettings
from fanfold.trees.tree import Entry, match

if TYPE_CHECKING:
    from fanfold.trees.world import World

HEAD_BYTES = 16
"""Source, group, upstream interface, timer: four octets each."""
OUT_BYTES = 8
"""Interface and timer, or label and neighbour."""


class Machine:
    """A protocol on all routers of a net; one group, one source.

    keys: names of entries in the order in which packets are matched. source: the source's host.
    source_link: its link to its first-hop router. root: what hosts take the shortest way to.
    """

    keys: ClassVar[tuple[str, ...]] = ()
    keeps_steps: ClassVar[bool] = True
    """``find`` depends on tables, paths and dead links alone, or the machine tells the world to
    ``forget`` what it knew of a router."""

    def __init__(self, world: "World", source: int, centre: int) -> None:
        self.world, self.source, self.centre = world, source, centre
        self.settings: TreeSettings = world.settings
        self.source_link = world.paths.attach(source, self.source_target())
        self.first_hop = world.end(self.source_link)

    @property
    def has_bypass(self) -> bool:
        """Copies for a neighbour behind a dead link go round it, once that is noticed."""
        return False

    @property
    def has_node_bypass(self) -> bool:
        """Copies for a neighbour that is lost go to those behind it, once that is noticed."""
        return False

    def source_target(self) -> int:
        """Router that the source takes the shortest way to; NONE where that is nobody."""
        return self.centre

    def member_target(self) -> int:
        """Router that members take the shortest way to."""
        return self.centre

    def on_start(self) -> None:
        """Set the fabric up, long before anything happens to the group."""

    def on_member(self, node: int, out: int, *, is_joined: bool) -> None:
        """A host behind a link wants the group, or no longer does."""
        raise NotImplementedError

    def on_message(self, node: int, link: int, kind: str, sender: int, value: int) -> None:
        """A message has come to a router; link is TUNNEL where it was unicast."""
        raise NotImplementedError

    def on_data(self, node: int, in_link: int) -> bool:
        """Look at a packet in passing; true where it must wait for the processor."""
        del node, in_link
        return False

    def on_punt(self, node: int, in_link: int) -> bool:
        """The processor has the packet; true where it goes on by what is decided by now."""
        del node, in_link
        return True

    def on_link_down(self, node: int, out: int) -> None:
        """A router has noticed that its link is dead."""
        del node, out

    def on_reroute(self) -> None:
        """Unicast paths have changed everywhere."""
        for node in range(self.world.net.n_hosts, self.world.net.n_nodes):
            self.on_paths(node)

    def on_paths(self, node: int) -> None:
        """Unicast paths of a router have changed."""
        del node

    def find(self, table: dict[str, Entry], node: int, in_link: int) -> Entry | None:
        """Entry for a packet."""
        del node
        return match(table, self.keys, in_link)

    def state_bytes(self, entry: Entry) -> int:
        """Octets that an entry takes."""
        return HEAD_BYTES * entry.n_entries + OUT_BYTES * len(entry.outs)

    def refresh(self) -> Iterable[tuple[int, int]]:
        """Messages, and the time between two rounds of them, that keep the present state."""
        return ()

    def refresh_of_members(self, n_members: int) -> tuple[int, int]:
        """Query and report for each member."""
        return 2 * n_members, IGMP_QUERY_PS
