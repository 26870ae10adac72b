"""Which switches share a bitmap: the clustering of Elmo (2019, section 3.2).

Each switch of a layer has a bitmap of output ports. A p-rule is a bitmap in the header and the
switches it is for; where there are more switches than p-rules, up to K share one, as long as
the ports that are too many stay within R. The rest gets s-rules, or one default bitmap.
"""

from typing import NamedTuple

SHARED = 2
"""K: switches of one p-rule."""


class Rules(NamedTuple):
    """Rules of one layer.

    shared: bitmap and switches of each p-rule. stored: bitmap of each switch with an s-rule.
    default: bitmap of all others, 0 where there are none.
    """

    shared: tuple[tuple[int, tuple[int, ...]], ...]
    stored: dict[int, int]
    default: int


def cluster(
    bitmaps: dict[int, int], n_rules: int, redundancy: int, *, is_stored: bool
) -> Rules:
    """Rules for the switches of a layer.

    Args:
        bitmaps: by switch, none of them 0.
        n_rules: p-rules that the header has room for.
        redundancy: R, ports too many that one p-rule may have, over all its switches.
        is_stored: the rest goes into tables of switches, not into the default bitmap.
    """
    if len(bitmaps) <= n_rules:
        return Rules(tuple((bitmap, (i,)) for i, bitmap in bitmaps.items()), {}, 0)
    if len(set(bitmaps.values())) == 1:
        return Rules((), {}, next(iter(bitmaps.values())))
    left = dict(sorted(bitmaps.items(), key=lambda item: (item[1].bit_count(), item)))
    shared = []
    for i in range(n_rules):
        most = min(SHARED, -(-len(left) // (n_rules - i)))
        found = _closest(left, most, redundancy)
        bitmap = 0
        for switch in found:
            bitmap |= left.pop(switch)
        shared.append((bitmap, found))
    if is_stored:
        return Rules(tuple(shared), left, 0)
    default = 0
    for bitmap in left.values():
        default |= bitmap
    return Rules(tuple(shared), {}, default)


def _closest(left: dict[int, int], most: int, redundancy: int) -> tuple[int, ...]:
    """The first switch and its nearest neighbour, or the first alone."""
    first, bitmap = next(iter(left.items()))
    best: tuple[int, ...] = (first,)
    best_extra = redundancy + 1
    if most < SHARED:
        return best
    for switch, other in left.items():
        extra = (bitmap ^ other).bit_count()
        if switch != first and extra < best_extra:
            best, best_extra = (first, switch), extra
            if extra == 0:
                break
    return best
