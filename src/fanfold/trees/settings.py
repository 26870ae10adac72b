"""Timers, delays and sizes of tree protocols, each with where it comes from (ADR 0014).

Assumed means: no standard sets it; the value is a plain one, and every run can have its own.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from fanfold.units import PS_PER_SECOND, PS_PER_US

Time = Annotated[int, Meta(ge=0, le=2**60)]
Count = Annotated[int, Meta(ge=0, le=2**20)]
Size = Annotated[int, Meta(ge=1, le=2**20)]
_MS = 1000 * PS_PER_US


class TreeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One set of numbers for a run; times in ps, sizes in bytes.

    process_ps: a router's processor on one message, one after the other (assumed).
    install_ps: from a decision to the forwarding table: 1,000 changes a second, as measured for
    switches by Huang and others (2013). forward_ps: of a router on a packet (assumed).
    last_member_query_ps, n_last_member_queries: RFC 9776 8.8 and 8.9; none: leave at once.
    detect_ps: a dead link is noticed, three hellos of 50 ms (RFC 5880 6.8.4). reroute_ps: from
    there to new unicast paths everywhere (Francois and others, 2005: under a second).
    switch_over: last-hop routers join the source's tree at its first packet (RFC 7761 4.2.1).
    state_refresh: of PIM-DM (RFC 3973 4.5). offer_ps, n_offers: DF election (RFC 5015 3.6).
    compute_ps: the controller on one tree (assumed). local_repair: what travels as unicast
    takes another way as soon as a dead link is noticed (RFC 9855). link_bypass: so do copies
    of mLDP, in a unicast tunnel to the neighbour (RFC 7715 1), until there are new paths.
    node_bypass: in tunnels to the routers behind the neighbour, round it (RFC 7715 2).
    packet_bytes: of data, headers included. rp, controller: names of routers, empty: the first
    of the highest tier. group: which of equal paths, by modulo (RFC 6388 2.4.1.1).
    """

    process_ps: Time = 100 * PS_PER_US
    install_ps: Time = _MS
    forward_ps: Time = 0
    last_member_query_ps: Time = PS_PER_SECOND
    n_last_member_queries: Count = 2
    detect_ps: Time = 150 * _MS
    reroute_ps: Time = 200 * _MS
    switch_over: bool = True
    state_refresh: bool = True
    offer_ps: Time = 100 * _MS
    n_offers: Count = 3
    compute_ps: Time = 10 * _MS
    local_repair: bool = True
    link_bypass: bool = False
    node_bypass: bool = False
    packet_bytes: Size = 1500
    rp: str = ""
    controller: str = ""
    group: Count = 0


# RFC 9776 8.2, RFC 7761 4.11, RFC 3973 4.8: how often soft state is said again.
IGMP_QUERY_PS = 125 * PS_PER_SECOND
JOIN_PERIOD_PS = 60 * PS_PER_SECOND
REGISTER_PROBE_PS = 60 * PS_PER_SECOND
STATE_REFRESH_PS = 60 * PS_PER_SECOND
PRUNE_LIMIT_PS = 210 * PS_PER_SECOND

# Octets on the link: Ethernet header and FCS 18, IPv4 20, TCP 20, then the message.
_ETHERNET, _LEAST, _IP, _TCP = 18, 64, 20, 20


def frame_bytes(n_bytes: int, *, tcp: bool = False) -> int:
    """Octets of a frame with a message of so many, below IPv4."""
    return max(_LEAST, _ETHERNET + _IP + (_TCP if tcp else 0) + n_bytes)


IGMP_BYTES = frame_bytes(4 + 8 + 8)
"""Router Alert, report or query with one group (RFC 9776 4.1, 4.2)."""
JOIN_BYTES = frame_bytes(4 + 6 + 4 + 8 + 4 + 8)
"""Join, Prune, Graft and Graft-Ack of one entry (RFC 7761 4.9.5)."""
REGISTER_BYTES = _IP + 8
"""What a Register adds to its packet (RFC 7761 4.9.3)."""
STOP_BYTES = frame_bytes(4 + 8 + 6)
"""Register-Stop (RFC 7761 4.9.4)."""
ASSERT_BYTES = frame_bytes(4 + 8 + 6 + 8)
"""Assert (RFC 7761 4.9.6)."""
OFFER_BYTES = frame_bytes(4 + 6 + 6 + 8)
"""DF election: Offer and Winner (RFC 5015 3.7)."""
LDP_BYTES = frame_bytes(10 + 8 + 4 + 17 + 8, tcp=True)
"""Mapping, Withdraw, Release: PDU, message, FEC, label (RFC 5036 3.5.7, RFC 6388 2.2)."""
REPORT_BYTES = frame_bytes(4 + 40, tcp=True)
"""Leaf report and answer to the controller (assumed: as PCEP objects)."""
