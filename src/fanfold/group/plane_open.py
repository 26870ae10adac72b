"""A rank's ends in all planes of its group: one for arrays and one to watch it in each."""

from collections.abc import Sequence
from contextlib import ExitStack

from fanfold.errors import ConfigError
from fanfold.group.plane_session import PlaneSession
from fanfold.group.plane_watchers import Watchers
from fanfold.group.rules import WAIT, Rules
from fanfold.group.session import Session
from fanfold.group.strand_session import StrandSession
from fanfold.group.strands import Strand
from fanfold.group.wants import Wants, find_nobody
from fanfold.live.rank import FEW, RankEnd, port_of_group
from fanfold.live.rank_build import windows_on
from fanfold.live.strand_end import StrandEnd
from fanfold.topo.fabric import Fabric

SEVERAL = "arrays go over several planes"


def open_planes(
    fabric: Fabric,
    members: Sequence[str],
    rank: int,
    strands: Sequence[Strand],
    rules: Rules,
    wants: Wants,
) -> PlaneSession:
    """Session of a rank whose group goes over several planes.

    Raises:
        ConfigError: what only one plane can have. EnvironmentLack: a port is in use.
    """
    if rules.stragglers != WAIT:
        raise ConfigError("stragglers", rules.stragglers, f"{WAIT}: {SEVERAL}")
    for name, got in (("root", wants.root), ("laid", wants.laid), ("port", wants.port)):
        if got:
            raise ConfigError(name, got, f"none: {SEVERAL}")
    window, usual = windows_on(fabric, wants.window, may_be_late=False)
    with ExitStack() as made:
        ends, watchers = [], []
        for strand in strands:
            end = StrandEnd(
                fabric,
                members,
                rank,
                group=strand.group,
                port=port_of_group(strand.group),
                window=window,
                usual=usual,
                secret=wants.secret,
            )
            made.callback(end.close)
            ends.append(end)
            watcher = RankEnd(
                fabric,
                members,
                rank,
                group=strand.watch,
                port=port_of_group(strand.watch),
                window=FEW,
                usual=FEW,
            )
            made.callback(watcher.close)
            watchers.append(Session(watcher, rank))
        made.pop_all()
    watch = Watchers(watchers, rank)
    sessions = [StrandSession(end, rank, rules, 4 * usual, watch.turn) for end in ends]
    find = find_nobody if rank else wants.find_teller
    teller = find([strand.plane for strand in strands])
    return PlaneSession(members, rank, rules, strands, sessions, watch, teller)
