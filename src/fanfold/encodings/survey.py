"""What every encoding costs for one message to one set of receivers.

Each row is counted by sending the packets hop by hop: switches see bytes and their own tables.
A row whose packets do not reach every receiver exactly once is never given out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanfold.encodings.catalog import ALL, Offer, Order, offers_of
from fanfold.encodings.encoder import MAX_BITS, Copy, Encoder, Refusal
from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.ground import NO_LINK, Ground, Tree
from fanfold.encodings.walk import Walk, walk
from fanfold.errors import ConfigError, MisuseError
from fanfold.topo.net import Net
from fanfold.topo.placement import Kind
from fanfold.topo.routes import Routes

I64 = NDArray[np.int64]
MTU_BYTES = 9216
"""Payload and header together; jumbo frames."""
MIN_LIMIT_BITS = 8
MIN_MTU_BYTES = 256
MAX_BYTES = 2**50


class Options(NamedTuple):
    """What may be left as it is.

    placement: how BFR-ids are given out, for the encodings that have them. jobs: for the
    placement by job, the hosts of each. limit_bits: most bits of a header that may name
    receivers, what switches can read. mtu_bytes: payload and header of one packet.
    """

    placement: Kind = "naive"
    jobs: Sequence[Sequence[int]] = ()
    limit_bits: int = MAX_BITS
    mtu_bytes: int = MTU_BYTES


OPTIONS = Options()


def survey(
    net: Net,
    routes: Routes,
    members: ArrayLike,
    payload_bytes: int,
    *,
    source: int = 0,
    encodings: Sequence[str] = (ALL,),
    options: Options = OPTIONS,
) -> list[EncodingRow]:
    """One row for each encoding, in the order of the catalog; what one cannot do it says.

    Args:
        members: (M,) hosts that receive; the source among them is left out.
        payload_bytes: of the message, headers of transport and IP included; more than a packet
            takes goes in several, each with a header of its own.
        source: host that sends.
        encodings: names of ``catalog.offers``, of kinds, or all.
        options: placement of BFR-ids, and what switches and packets can take.

    Raises:
        ConfigError: an unknown encoding or host, no members, a size out of range, a member
            without a path.
    """
    return survey_on(Ground(net, routes), members, payload_bytes, source, encodings, options)


def survey_on(
    ground: Ground,
    members: ArrayLike,
    payload_bytes: int,
    source: int,
    encodings: Sequence[str],
    options: Options,
) -> list[EncodingRow]:
    """The same on a ground that other surveys share."""
    offered = offers_of(encodings)
    _check_range("limit_bits", options.limit_bits, MIN_LIMIT_BITS, MAX_BITS)
    _check_range("payload", payload_bytes, 1, MAX_BYTES)
    _check_range("mtu", options.mtu_bytes, MIN_MTU_BYTES, MAX_BYTES)
    hosts = _members(ground.net, members, source)
    job = Job(ground, source, hosts, payload_bytes, options.mtu_bytes)
    return [job.row(offer, order_of(ground, options, offer)) for offer in offered]


def order_of(ground: Ground, options: Options, offer: Offer) -> Order:
    """What an encoder of one row is made of."""
    limit, placement, jobs = options.limit_bits, options.placement, options.jobs
    return Order(ground, limit, placement, jobs, offer.n_bits)


class Job:
    """One message: where from, where to, how large; shared by all encodings."""

    def __init__(
        self, ground: Ground, source: int, members: I64, payload_bytes: int, mtu_bytes: int
    ) -> None:
        self.ground = ground
        self.source = source
        self.members = members
        self.payload_bytes = payload_bytes
        self.mtu_bytes = mtu_bytes
        self.tree: Tree = ground.tree_of(source)
        far = members[self.tree.into[members] == NO_LINK]
        if far.size:
            name = ground.net.node_name(int(far[0]))
            raise ConfigError("members", name, "hosts that the source has a path to")
        branches = ground.branches(self.tree.into, members.tolist())
        self.tree_links = sum(map(len, branches.values()))

    def row(self, offer: Offer, order: Order) -> EncodingRow:
        """What one encoding costs, or why it cannot."""
        placement = order.placement if offer.kind.is_placed else ""
        try:
            encoder = offer.kind.make(order)
            copies = encoder.encode(self.source, self.members)
            return self._counted(offer.name, placement, encoder, copies)
        except Refusal as refusal:
            return EncodingRow(offer.name, placement, str(refusal))

    def _counted(
        self, name: str, placement: str, encoder: Encoder, copies: list[Copy]
    ) -> EncodingRow:
        heads = [len(copy.head) - encoder.free_bytes for copy in copies]
        room = self.mtu_bytes - max(heads)
        if room < 1:
            raise Refusal(f"a header of {max(heads)} bytes in packets of {self.mtu_bytes}")
        n_segments = -(-self.payload_bytes // room)
        went = walk(self.ground, encoder, copies)
        self._check(name, went)
        extra = sum(went.arrivals.values()) + sum(went.strays.values()) - self.members.size
        n_hops = int(self.tree.hops[self.members].sum())
        routers = self.ground.routers
        rows = [(encoder.entries(r), encoder.entry_bytes(r)) for r in routers]
        return EncodingRow(
            encoding=name,
            placement=placement,
            payload_bytes=self.payload_bytes,
            n_members=int(self.members.size),
            n_packets=len(copies) * n_segments,
            header_bytes=max(heads),
            source_header_bytes=sum(heads) * n_segments,
            link_header_bytes=went.header_bytes * n_segments,
            n_copies=went.n_copies * n_segments,
            n_visits=went.n_visits * n_segments,
            n_lookups=went.n_lookups * n_segments,
            most_lookups=went.most_lookups,
            entries=max(n for n, _ in rows),
            state_bytes=max(n * n_bytes for n, n_bytes in rows),
            group_entries=sum(encoder.group_entries.values()),
            most_group_entries=max(encoder.group_entries.values(), default=0),
            spurious=extra * n_segments,
            tree_links=self.tree_links * n_segments,
            source_bytes=len(copies) * self.payload_bytes + sum(heads) * n_segments,
            link_bytes=went.n_copies * self.payload_bytes + went.header_bytes * n_segments,
            tree_bytes=self.tree_links * self.payload_bytes,
            unicast_source_bytes=int(self.members.size) * self.payload_bytes,
            unicast_link_bytes=n_hops * self.payload_bytes,
        )

    def _check(self, name: str, went: Walk) -> None:
        wrong = [h for h in self.members.tolist() if went.arrivals.get(h, 0) != 1]
        if wrong:
            host, n = self.ground.net.node_name(wrong[0]), went.arrivals.get(wrong[0], 0)
            raise MisuseError(f"{name}: {len(wrong)} receivers not reached once; {host}: {n}")


def _check_range(field: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(field, value, f"{low}..{high}")


def _members(net: Net, members: ArrayLike, source: int) -> I64:
    """Hosts that receive, rising, each once, without the source."""
    hosts: I64 = np.unique(np.asarray(members, np.int64).reshape(-1))
    hosts = hosts[hosts != source]
    if not 0 <= source < net.n_hosts:
        raise ConfigError("source", source, f"hosts 0..{net.n_hosts - 1}")
    if not hosts.size:
        raise ConfigError("members", "none", "one host or more besides the source")
    if hosts[0] < 0 or hosts[-1] >= net.n_hosts:
        wrong = int(hosts[0] if hosts[0] < 0 else hosts[-1])
        raise ConfigError("members", wrong, f"hosts 0..{net.n_hosts - 1}")
    return hosts
