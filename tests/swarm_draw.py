"""What befalls one seed of the swarm (tests/swarm.py), drawn before it begins."""

from typing import NamedTuple

from fanfold.streams import stream
from fanfold.units import PS_PER_SECOND

MS = PS_PER_SECOND // 1000
ENDINGS = ("well", "dies", "stands still", "is taken over from")


class Mishaps(NamedTuple):
    """Of one seed. twice, late, damaged: chance of each packet on each link.

    slow: a receiver whose disk takes slow_ps for each block. full: one whose disk is full from
    full_ps on, until until_ps. without: a link that is left out of all tables for out_ps, but
    is well.
    """

    twice: float
    late: float
    damaged: float
    slow: str
    slow_ps: int
    full: str
    full_ps: int
    until_ps: int
    without: tuple[str, str] | None
    out_ps: int


class Draw(NamedTuple):
    """What befalls one seed."""

    leaves: int
    spines: int
    hosts: int
    loss: float
    n_blocks: int
    ending: str
    share: float
    """Of its blocks that some receiver has when the first sender ends."""
    newer: bool
    cut: tuple[str, str] | None
    cut_ps: int
    is_healed: bool
    killed: str
    kill_ps: int
    back_ps: int
    store_bytes: int
    more: Mishaps


def draw_of(seed: int) -> Draw:
    """The world of a seed."""
    rng = stream(seed, "swarm/draw")
    leaves, spines, hosts = (int(rng.integers(*span)) for span in ((2, 4), (2, 4), (4, 7)))
    bfrs = [f"leaf{i + 1}" for i in range(leaves)], [f"spine{i + 1}" for i in range(spines)]
    is_cut, is_kill = rng.random() < 0.6, rng.random() < 0.5
    victims = [*bfrs[1], *(f"h{i}" for i in range(2, hosts + 1))]
    return Draw(
        leaves,
        spines,
        hosts,
        float(rng.choice([0.0, 0.01, 0.1])),
        int(rng.integers(6, 24)),
        ENDINGS[int(rng.integers(len(ENDINGS)))],
        float(rng.random() * 0.9),
        bool(rng.random() < 0.4),
        (str(rng.choice(bfrs[0])), str(rng.choice(bfrs[1]))) if is_cut else None,
        int(rng.integers(0, 200)) * MS,
        bool(rng.random() < 0.5),
        str(rng.choice(victims)) if is_kill else "",
        int(rng.integers(0, 200)) * MS,
        int(rng.integers(20, 3000)) * MS,
        int(rng.choice([0, 1 << 16])),
        mishaps_of(seed, hosts, leaves, spines),
    )


def mishaps_of(seed: int, hosts: int, leaves: int, spines: int) -> Mishaps:
    """Those of a seed; hosts: h0 and h1 send, the others receive."""
    rng = stream(seed, "swarm/mishaps")
    receivers = [f"h{i}" for i in range(2, hosts + 1)]
    is_bad, is_slow, is_full, is_out = rng.random(4) < (0.5, 0.3, 0.3, 0.5)
    chances = [float(rng.choice([0.0, 0.01, 0.05])) * bool(is_bad) for _ in range(3)]
    full_ps = int(rng.integers(0, 300)) * MS
    link = f"leaf{rng.integers(1, leaves + 1)}", f"spine{rng.integers(1, spines + 1)}"
    return Mishaps(
        *chances,
        str(rng.choice(receivers)) if is_slow else "",
        int(rng.integers(5, 60)) * MS,
        str(rng.choice(receivers)) if is_full else "",
        full_ps,
        full_ps + int(rng.integers(1, 2000)) * MS,
        link if is_out else None,
        int(rng.integers(50, 1000)) * MS,
    )
