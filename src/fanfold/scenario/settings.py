"""How packets look and what ports, hosts and routers do: every number of the timing model.

The model is docs/simulator.md. Defaults are those of ADR 0012.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fanfold.kernels.layout import TRAILER_BYTES, UNDERLAY_BYTES
from fanfold.schemes.tree_fans import TreeStart
from fanfold.units import PPB_ONE, PS_PER_MS

_MS = PS_PER_MS
Count = Annotated[int, Meta(ge=0, le=2**40)]
Positive = Annotated[int, Meta(ge=1, le=2**40)]
Size = Annotated[int, Meta(ge=1, le=2**20)]
Header = Annotated[int, Meta(ge=0, le=2**16)]
"""A train of 64 such packets counts its bytes in 31 bits."""
Block = Annotated[int, Meta(ge=1, le=64)]
Window = Annotated[int, Meta(ge=4, le=2**14)]
Time = Annotated[int, Meta(ge=0, le=2**60)]
Delay = Annotated[int, Meta(ge=0, le=2**50)]
"""Some 18 minutes: thousands of them in a row are still a time."""
Hello = Annotated[int, Meta(ge=10**6, le=10**13)]
"""A microsecond to ten seconds."""
Chance = Annotated[int, Meta(ge=0, lt=int(PPB_ONE))]
"""What a file may hold; a loss of one would let nothing through."""
Transport = Literal["roce", "ndp", "plain"]
"""roce: line rate, an ACK a packet, go-back-N. ndp: first window, then receivers pull; full
queues cut packets to headers. plain: line rate, an ACK a packet, only what is missing again."""
Feedback = Literal["auto", "folded", "block", "packet", "nack"]
"""How receivers of one-to-many schemes other than fanfold speak. block, and auto: each a word a
block. packet: each an ACK a packet. nack: only of losses, and when polled at the end. folded:
as fanfold, which trees cannot."""
TreeRepair = Literal["tree", "unicast"]
"""What a tree's sender sends again: to everybody on the tree, or to those who lack it, one by
one."""
SumNumbers = Literal["value", "block", "integer"]
"""What fanfold's sums are of, as live ranks send it (ADR 0033). value: float32 with an exponent
of a byte for each, the default there; with more than 64 ranks words of 8 bytes and exponents of
2. block: one exponent for a block, up to 64 ranks. integer: int32."""
Routing = Literal["ecmp", "spray", "flows", "flowlets", "packets"]
"""ecmp: one path a message by its hash. spray: all paths in turn, packet by packet. flows: a
message is dealt by weight to queue pairs, ``queue_pairs`` for each sub-port of each plane, each
with an entropy and one path of its own. flowlets: as flows, and after a pause of ``flowlet_ps``
a queue pair goes on by another path of its plane. packets: to one queue pair for each plane,
by weight, all paths of the plane in turn (draft-xu-rtgwg-fare-in-sun 3.1, 3.2)."""

InPlane = Literal["flows", "packets"]
"""flows: every queue pair, or its part on one link of a host, keeps one path of the plane.
packets: all paths in turn."""
Protection = Literal["auto", "notice", "frr", "reroute"]
"""What fans by BIFTs do when a neighbour is lost. notice: tables without it, made ahead, and
NOTICEs to all others, as live (fanfold's own, and auto there). frr: the node beside it leads
round it (draft-ietf-bier-frr) until there are new paths. reroute: nothing before that (auto for
plain BIER)."""


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that fails, or is mended, at a time: scenario/failures.py reads the words.

    fail: as for ``fanfold lab fail``: "link leaf1-spine1", "node spine2", "pause h3 3s", "gray
    leaf1-spine1 1%", "half-cable h3-plane2". heal: a name, as for ``lab heal``. Or a and b: a
    cable that takes nothing more, or again takes packets, without anybody who notices.
    """

    at_ps: Time
    a: str = ""
    b: str = ""
    up: bool = False
    fail: str = ""
    heal: str = ""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One set of numbers for a whole run; sizes in bytes, times in ps, shares in ppb.

    payload_bytes: of a full packet. header_bytes: added to each unicast packet. ack_bytes: of
    an ACK, NACK, pull or trimmed header. window_pkts: unicast packets in flight, 0 = no limit;
    for ndp the first window. queue_bytes: a port's limit, 0 = none. ecn_bytes: marks above it,
    0 = never. pfc_pkts: pause above, resume below, in packets of an ingress; 0 = no PFC.
    cut_through: a router passes on after the header, where the next link is not faster.
    switch_ps: of a router. loss_ppb: of every packet on every link, hosts' links included.
    block_psns, n_slots, n_ecmp: of fans. sum_window: blocks of a sum that a rank has under way.
    sum_numbers: of what a sum adds up, values of 4 bytes; SumNumbers says how.
    array_slots: of a BFR for arrays. group_slots: of these for one sum at most, 0 = any.
    bitstring_bits: 0 = what suits the hosts, width.py. rto_ps: shortest retransmit time of
    messages, never below three idle round trips (sim/waits.py), which 0 stands for.
    cache_bytes: of DATA that a BFR keeps, to repair from; 0: all repairs come from the source.
    feedback, tree_repair: of one-to-many schemes. tree_start: what happens before a tree is up.
    hello_ps, detect_mult: of sessions between neighbours where failures have words: silence of
    so many intervals is the end. lag_ms: how late all nodes say that their timers run, by a
    clock of 50 ms a HELLO; twice as much is waited beyond the intervals. notice_ps: of a
    router's processor on a NOTICE (assumed, as a message of tree protocols). table_ps: from a
    decision to the forwarding table (as there); tables made ahead take none. reroute_ps: from
    detection to new unicast paths. protection: of fans by BIFTs. link_keys: links have keys,
    so packets of fans by BIER and of fanfold's sums are a trailer longer.
    planes: of hosts with links in several. Empty: messages use all, a fan one. auto: fans too,
    by weight (ADR 0053). Numbers with commas between: these, for both. weights_ps: from a
    change of a link until all hosts have other weights, as BGP brings them in a lab.
    queue_pairs: of messages by routing flows, for each sub-port and pair of hosts. bound_pairs:
    their ends have addresses of sub-ports, and use these; else, between loopbacks, a hash of
    the UDP source port picks sub-ports. flowlet_ps: pause after which a flowlet begins, unsaid
    or 0 the longest idle round trip. in_plane: what switches of a plane take apart, where that
    is not what hosts do.
    """

    payload_bytes: Size = 4096
    header_bytes: Header = 64
    ack_bytes: Size = 64
    transport: Transport = "plain"
    routing: Routing = "spray"
    window_pkts: Count = 0
    queue_bytes: Count = 0
    ecn_bytes: Count = 0
    pfc_pkts: tuple[Count, Count] = (0, 0)
    cut_through: bool = False
    switch_ps: Delay = 0
    loss_ppb: Chance = 0
    block_psns: Block = 64
    bitstring_bits: Count = 0
    n_slots: Positive = 1024
    n_ecmp: Positive = 4
    sum_window: Window = 256
    sum_numbers: SumNumbers = "value"
    array_slots: Positive = 16384
    group_slots: Count = 0
    cache_bytes: Count = 16 << 20
    rto_ps: Delay = 0
    failures: tuple[Failure, ...] = ()
    feedback: Feedback = "auto"
    tree_start: TreeStart = "wait"
    tree_repair: TreeRepair = "tree"
    hello_ps: Hello = 50 * _MS
    detect_mult: Annotated[int, Meta(ge=1, le=255)] = 3
    lag_ms: Annotated[int, Meta(ge=0, le=2**12)] = 0
    notice_ps: Delay = _MS // 10
    table_ps: Delay = _MS
    reroute_ps: Delay = 200 * _MS
    protection: Protection = "auto"
    planes: str = ""
    weights_ps: Delay = 140 * _MS
    queue_pairs: Annotated[int, Meta(ge=1, le=64)] = 1
    bound_pairs: bool = False
    flowlet_ps: Delay | msgspec.UnsetType = msgspec.UNSET
    in_plane: InPlane | msgspec.UnsetType = msgspec.UNSET
    link_keys: bool | msgspec.UnsetType = msgspec.UNSET  # unsaid, ids of runs are as before

    @property
    def underlay_bytes(self) -> int:
        """Around a packet of fanfold's: outer IPv4 and UDP, the trailer of a link with keys."""
        return UNDERLAY_BYTES + (TRAILER_BYTES if self.link_keys is True else 0)

    @property
    def by_weight(self) -> bool:
        """Planes are used by what paths carry: by fans, or by queue pairs of messages."""
        return bool(self.planes) or self.is_dealt

    @property
    def is_dealt(self) -> bool:
        """Messages are dealt to queue pairs of planes."""
        return self.routing in ("flows", "flowlets", "packets")

    @property
    def detect_ps(self) -> int:
        """Silence after which a neighbour that is watched often counts as lost."""
        return self.hello_ps * self.detect_mult
