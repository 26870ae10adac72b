"""One run of a tree protocol in a few numbers, for people and for JSON."""

import msgspec

from fanfold.topo.net import Net
from fanfold.trees.group_events import NOT_DONE, GroupEventRow, MessageRow
from fanfold.trees.tree_run import TreeRun


class Latency(msgspec.Struct, frozen=True):
    """Of all joins, leaves or failures: how many, how many never came about, p50 and max.

    p50 is the least time that half of them do not exceed; NOT_DONE where none came about.
    """

    n: int
    n_never: int
    p50_ps: int
    max_ps: int


class State(msgspec.Struct, frozen=True):
    """Entries and bytes of all routers at the end, of the fullest, and most entries ever."""

    n_routers: int
    n_entries: int
    n_bytes: int
    most_entries: int
    most_bytes: int
    peak_entries: int


class TreeSummary(msgspec.Struct, frozen=True):
    """One run.

    n_members: at the end. n_message_bytes: on all links. n_lost, n_due: copies of packets that
    members missed, and were to get. n_extra: copies beyond the first, or to hosts that are no
    members. n_waited: times that a packet waited for a router's processor.
    """

    protocol: str
    topology: str
    n_members: int
    join: Latency
    leave: Latency
    mend: Latency
    state: State
    n_messages: int
    n_message_bytes: int
    n_setup_messages: int
    refresh_ppb: int
    n_tree_links: int
    n_sent: int
    n_due: int
    n_lost: int
    n_extra: int
    n_waited: int
    n_data_hops: int
    n_no_state: int
    end_ps: int
    messages: tuple[MessageRow, ...]
    events: tuple[GroupEventRow, ...]


def build_summary(net: Net, run: TreeRun) -> TreeSummary:
    """Sum a run up."""
    joins, leaves, fails = (_of(run, what) for what in ("join", "leave", "fail"))
    packets, states = run.packets, run.states
    n_delivered = sum(p.n_delivered for p in packets)
    n_due = sum(p.n_expected for p in packets)
    state = State(
        len(states),
        sum(s.n_entries for s in states),
        sum(s.n_bytes for s in states),
        max((s.n_entries for s in states), default=0),
        max((s.n_bytes for s in states), default=0),
        run.peak_entries,
    )
    return TreeSummary(
        protocol=run.protocol,
        topology=net.name,
        n_members=len(joins) - len(leaves),
        join=_latency(joins),
        leave=_latency(leaves),
        mend=_latency(fails),
        state=state,
        n_messages=sum(m.n for m in run.messages),
        n_message_bytes=sum(m.n_bytes for m in run.messages),
        n_setup_messages=run.setup.n,
        refresh_ppb=run.refresh_ppb,
        n_tree_links=len(run.trees[-1].links),
        n_sent=len(packets),
        n_due=n_due,
        n_lost=n_due - n_delivered,
        n_extra=sum(p.n_copies for p in packets) - n_delivered,
        n_waited=sum(p.n_waited for p in packets),
        n_data_hops=sum(p.n_hops for p in packets),
        n_no_state=run.n_no_state,
        end_ps=run.end_ps,
        messages=run.messages,
        events=run.events,
    )


def _of(run: TreeRun, what: str) -> list[int]:
    return [row.took_ps for row in run.events if row.what == what]


def _latency(took: list[int]) -> Latency:
    done = sorted(ps for ps in took if ps != NOT_DONE)
    if not done:
        return Latency(len(took), len(took), NOT_DONE, NOT_DONE)
    return Latency(len(took), len(took) - len(done), done[(len(done) - 1) // 2], done[-1])
