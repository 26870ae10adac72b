"""A net of planes as BGP speakers see it: names, addresses, AS numbers, what a leg carries.

Hosts whose ports lead to one leaf a plane; each leg of a port is a link of its own with a
session of its own, eBGP as in RFC 7938. A host's loopback is announced on all its legs.

    leg of host H in plane P, number L    172.(16+P).H.(2L) at the host, one more at the leaf
    AS of a leaf                          64512 + plane
    AS of a host                          64600 + host
"""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from fanfold.errors import ConfigError
from fanfold.topo.lab_addresses import address_of

if TYPE_CHECKING:
    from fanfold.topo.net import Net

MAX_PLANES = 16
MAX_HOSTS = 64
MAX_LEGS = 64
LEAF_AS, HOST_AS = 64_512, 64_600
MBIT = 10**6
MAX_CARRIED_MBPS = 25_600
"""Of what a speaker of FRR 8.4 sets, or adds up: it keeps bytes per second in 32 bits."""


class Speaker(msgspec.Struct, frozen=True):
    """A host or a leaf: its loopback address and AS number."""

    name: str
    address: str
    asn: int


class Leg(msgspec.Struct, frozen=True):
    """One leg of a host's port, both ends: devices and addresses.

    mbps: what its bandwidth is carried as, its own Mbit/s divided by the plan's scale.
    """

    host: str
    leaf: str
    plane: int
    number: int
    host_device: str
    leaf_device: str
    host_address: str
    leaf_address: str
    mbps: int

    @property
    def port(self) -> str:
        """Name of the port it belongs to."""
        return f"{self.host}-plane{self.plane}"


class PlanePlan(msgspec.Struct, frozen=True):
    """All speakers and legs. scale: of a bandwidth, to what its community carries."""

    hosts: tuple[Speaker, ...]
    leaves: tuple[Speaker, ...]
    legs: tuple[Leg, ...]
    scale: int
    mtu: int

    def at_host(self, host: str) -> list[Leg]:
        """Legs of a host, by plane."""
        return [leg for leg in self.legs if leg.host == host]

    def carried(self, host: str) -> dict[int, int]:
        """Mbit/s of a host's legs by plane, as they are carried."""
        found: dict[int, int] = {}
        for leg in self.at_host(host):
            found[leg.plane] = found.get(leg.plane, 0) + leg.mbps
        return found

    def at_leaf(self, leaf: str) -> list[Leg]:
        """Legs of a leaf, by host."""
        return [leg for leg in self.legs if leg.leaf == leaf]


def plan_planes(net: "Net", prefix: int, mtu: int) -> PlanePlan:
    """Plan of a net whose routers are leaves of one plane each.

    Args:
        net: such as a superpod. prefix: lab index, third octet of loopbacks, which are 10.x.

    Raises:
        ConfigError: another kind of net, more than addresses are for, or rates that no common
            scale carries.
    """
    ends = sorted(
        {
            (int(net.src[i]), int(net.plane[i]), int(net.cable[i]), int(net.dst[i])): i
            for i in range(net.n_links)
            if net.src[i] < net.n_hosts
        }.items()
    )
    _check_shape(net, [end for end, _ in ends])
    names = [net.node_name(n) for n in range(net.n_nodes)]
    scale = _scale_of(net)
    legs, n_before = [], dict[tuple[int, int], int]()
    for (host, plane, _, leaf), link in ends:
        number = n_before.get((host, plane), 0)
        n_before[host, plane] = number + 1
        network = f"172.{16 + plane}.{host}"
        legs.append(
            Leg(
                host=names[host],
                leaf=names[leaf],
                plane=plane,
                number=number,
                host_device=f"plane{plane}-{number}",
                leaf_device=f"{names[host]}-{number}",
                host_address=f"{network}.{2 * number}",
                leaf_address=f"{network}.{2 * number + 1}",
                mbps=int(net.bps[link]) // (scale * MBIT),
            )
        )
    planes = {leaf: plane for (_, plane, _, leaf), _ in ends}
    return PlanePlan(
        hosts=tuple(_speaker(names, n, prefix, HOST_AS + n) for n in range(net.n_hosts)),
        leaves=tuple(
            _speaker(names, n, prefix, LEAF_AS + plane) for n, plane in sorted(planes.items())
        ),
        legs=tuple(legs),
        scale=scale,
        mtu=mtu,
    )


def _speaker(names: list[str], node: int, prefix: int, asn: int) -> Speaker:
    _, _, rest = address_of(node, prefix).partition(".")
    return Speaker(names[node], f"10.{rest}", asn)


def _check_shape(net: "Net", ends: list[tuple[int, int, int, int]]) -> None:
    leaves = {(plane, leaf) for _, plane, _, leaf in ends}
    n_planes = len({plane for plane, _ in leaves})
    is_one_tier = 2 * len(ends) == net.n_links
    if not is_one_tier or n_planes != len(leaves) or n_planes != net.n_nodes - net.n_hosts:
        raise ConfigError("--bgp", net.name, "hosts with one leaf a plane, such as superpod")
    n_legs = max(Counter(end[:2] for end in ends).values())
    for field, value, most in (
        ("planes", max(plane for plane, _ in leaves) + 1, MAX_PLANES),
        ("hosts", net.n_hosts, MAX_HOSTS),
        ("legs", n_legs, MAX_LEGS),
    ):
        if value > most:
            raise ConfigError(field, value, f"at most {most} with --bgp")


def _scale_of(net: "Net") -> int:
    """Power of ten by which bandwidths are divided to be carried."""
    rates: dict[tuple[int, int], int] = {}
    for i in range(net.n_links):
        ends = int(net.src[i]), int(net.dst[i])
        rates[ends] = rates.get(ends, 0) + int(net.bps[i])
    scale = 1
    while max(rates.values()) > scale * MBIT * MAX_CARRIED_MBPS:
        scale *= 10
    for bps in set(net.bps.tolist()):
        if bps % (scale * MBIT):
            allowed = f"a multiple of {scale} Mbit/s, which is carried as 1 Mbit/s"
            raise ConfigError("rate", f"{bps} bit/s", allowed)
    return scale
