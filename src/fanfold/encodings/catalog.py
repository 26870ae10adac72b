"""Every encoding that can be asked for by name; a new one is one file and one row here.

A name with lengths stands for one encoding of each BitString length, ``bier-256``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fanfold.encodings.elmo import Elmo
from fanfold.encodings.encoder import Encoder
from fanfold.encodings.flat_bier import FlatBier
from fanfold.encodings.ground import Ground
from fanfold.encodings.hierarchical_bier import HierarchicalBier
from fanfold.encodings.id_list import IdList
from fanfold.encodings.prefix_blocks import PrefixBlocks
from fanfold.encodings.rbs import Rbs
from fanfold.encodings.rts import Rts
from fanfold.encodings.sub_domains import SubDomains
from fanfold.encodings.unicast import Unicast
from fanfold.errors import ConfigError
from fanfold.nearest import nearest, one_of
from fanfold.topo.placement import Kind, place_hosts
from fanfold.wire.bitstring import LENGTHS

ALL = "all"
BASELINE = "unicast"


class Order(NamedTuple):
    """What an encoder is made of.

    limit_bits: most bits of a header that name receivers. placement: of BFR-ids. jobs: hosts
    of each job, for the placement by job. n_bits: length of a BitString, 0 where none is set.
    """

    ground: Ground
    limit_bits: int
    placement: Kind
    jobs: Sequence[Sequence[int]]
    n_bits: int


class EncodingKind(NamedTuple):
    """A name, how it is made, what it is.

    lengths: of BitStrings that it is offered in; empty where it has no such choice.
    is_placed: it depends on how BFR-ids are given out. source: where the format is from.
    """

    name: str
    make: Callable[[Order], Encoder]
    summary: str
    source: str
    lengths: tuple[int, ...] = ()
    is_placed: bool = False


class Offer(NamedTuple):
    """One encoding: its full name, its kind, its length of BitString or 0."""

    name: str
    kind: EncodingKind
    n_bits: int


def _flat(order: Order) -> Encoder:
    placed = place_hosts(order.ground.net, order.placement, order.n_bits, order.jobs)
    return FlatBier(order.ground, order.limit_bits, placed)


CATALOG: tuple[EncodingKind, ...] = (
    EncodingKind(
        BASELINE,
        lambda order: Unicast(order.ground, order.limit_bits),
        "one copy for each receiver",
        "no header besides",
    ),
    EncodingKind(
        "bier",
        _flat,
        "one bit for each host, one packet for each set",
        "RFC 8279, RFC 8296",
        lengths=LENGTHS,
        is_placed=True,
    ),
    EncodingKind(
        "bier-sd",
        lambda order: SubDomains(order.ground, order.limit_bits, order.n_bits),
        "a sub-domain for each pod",
        "RFC 8279 section 2",
        lengths=(256,),
    ),
    EncodingKind(
        "bier-h",
        lambda order: HierarchicalBier(order.ground, order.limit_bits, order.n_bits),
        "bits for pods, new headers imposed at their borders",
        "slides (McBride, ChiNOG); layout ours",
        lengths=(256,),
    ),
    EncodingKind(
        "rbs",
        lambda order: Rbs(order.ground, order.limit_bits),
        "the tree: a BitString of each switch's ports",
        "draft-eckert-bier-rbs-00",
    ),
    EncodingKind(
        "rts",
        lambda order: Rts(order.ground, order.limit_bits),
        "the tree: nested units of SIDs or BitStrings",
        "draft-eckert-pim-rts-forwarding-01",
    ),
    EncodingKind(
        "id-list",
        lambda order: IdList(order.ground, order.limit_bits),
        "the numbers of the receivers",
        "layout ours",
    ),
    EncodingKind(
        "elmo",
        lambda order: Elmo(order.ground, order.limit_bits, is_stored=False),
        "bitmaps for layers of a Clos, the rest by default bitmap",
        "Elmo, SIGCOMM 2019",
    ),
    EncodingKind(
        "elmo-s",
        lambda order: Elmo(order.ground, order.limit_bits, is_stored=True),
        "bitmaps for layers of a Clos, the rest in tables",
        "Elmo, SIGCOMM 2019",
    ),
    EncodingKind(
        "peel",
        lambda order: PrefixBlocks(order.ground, order.limit_bits, is_covering=False),
        "blocks of a power of two, exact",
        "PEEL, HotNets 2025; layout ours",
    ),
    EncodingKind(
        "peel-c",
        lambda order: PrefixBlocks(order.ground, order.limit_bits, is_covering=True),
        "blocks of a power of two, covering",
        "PEEL, HotNets 2025; layout ours",
    ),
)


def offers() -> tuple[Offer, ...]:
    """All encodings, each length of a BitString by itself."""
    return tuple(
        Offer(f"{kind.name}-{n_bits}" if n_bits else kind.name, kind, n_bits)
        for kind in CATALOG
        for n_bits in kind.lengths or (0,)
    )


def offers_of(names: Sequence[str]) -> tuple[Offer, ...]:
    """Encodings by name: full names, names of kinds, or all.

    Raises:
        ConfigError: an unknown name.
    """
    known = offers()
    found: dict[str, Offer] = {}
    for name in names:
        mine = [offer for offer in known if name in (ALL, offer.name, offer.kind.name)]
        if not mine:
            kinds = [ALL, *(kind.name for kind in CATALOG)]
            words = [*kinds, *(offer.name for offer in known)]
            near = nearest(name, words)
            raise ConfigError("encoding", name, one_of(name, [near] if near else kinds))
        found |= {offer.name: offer for offer in mine}
    return tuple(found.values())
