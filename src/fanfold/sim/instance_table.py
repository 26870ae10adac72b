"""Policies that choose instances of a service, side by side over the same sessions; as rows."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.sim.instances import Service, ServiceRun, latencies_of, quantile
from fanfold.sim.service_sites import ServiceSites, place_service
from fanfold.sim.steering import POLICIES, Policy
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.units import parse_duration
from fanfold.work.sessions import MAX_TURNS, Demand, draw_sessions

TOPOLOGY = "wan:sites=5,hosts=4,rate=25Gbps"
PPM = 1_000_000
P50, P99, P999 = 500_000, 990_000, 999_000


class Asked(msgspec.Struct, frozen=True):
    """What is run.

    policies: names by commas, or all. fail: what is lost and when, as h3@30s; empty: nothing.
    """

    topology: str = TOPOLOGY
    instances: int = 1
    demand: Demand = Demand()
    service: Service = Service()
    policies: str = "all"
    fail: str = ""
    seed: int = 1


class InstanceRow(msgspec.Struct, frozen=True):
    """One policy. Times are from a turn's request to its first token at the user, ps.

    moved: turns whose context was fetched; moved_bytes: of contexts, between_bytes: the same on
    each link that joins sites. busiest_ppm: of the slots of the busiest instance, busy within
    the window. incast: most contexts on their way to one host at once. held_bytes: most at one
    instance, of sessions that go on. before, after: 99 % of turns near the loss with their
    first token before it, and later; 0: nothing is lost.
    """

    policy: str
    turns: int
    mean_ps: int
    p50_ps: int
    p99_ps: int
    p999_ps: int
    moved: int
    moved_bytes: int
    between_bytes: int
    busiest_ppm: int
    incast: int
    held_bytes: int
    before_p99_ps: int
    after_p99_ps: int


class InstanceTable(msgspec.Struct, frozen=True):
    """All of it. users, hosts: of sites, where instances run. load_ppm: work by slots."""

    asked: Asked
    users: list[str]
    hosts: list[str]
    sessions: int
    load_ppm: int
    rows: list[InstanceRow]


def build_instance_table(
    asked: Asked, progress: Callable[[int, int], None] | None = None
) -> InstanceTable:
    """Run every policy over the same sessions.

    Args:
        progress: told (done, of all).

    Raises:
        ConfigError: a topology, policy, number of instances or loss that cannot be, or more
            turns than MAX_TURNS.
    """
    net = build_named_net(asked.topology, asked.seed)
    routes = build_routes(net)
    sites = place_service(net, routes, asked.instances)
    policies, lost = policies_of(asked.policies), _lost(asked, sites)
    demand, service = asked.demand, asked.service
    mean = demand.mean_turns(len(sites.users))
    if mean > MAX_TURNS:
        raise ConfigError("turns", f"about {mean}", f"at most {MAX_TURNS}")
    sessions = draw_sessions(demand, len(sites.users), asked.seed)
    if not sessions:
        raise ConfigError("sessions", "none begins", "a higher rate or a longer time")
    rows = []
    for n, policy in enumerate(policies):
        if progress is not None:
            progress(n, len(policies))
        run = ServiceRun(
            sites,
            routes,
            service,
            sessions,
            policy,
            seed=asked.seed,
            window_ps=demand.window_ps,
            lost=lost,
        )
        run.run()
        rows.append(_row(policy, run, lost[1] if lost else 0, demand.window_ps))
    work = sum(
        service.whole_ps(prompt, answer)
        for one in sessions
        for prompt, answer in zip(one.prompts, one.answers, strict=True)
    )
    room = demand.window_ps * service.slots * len(sites.instances)
    return InstanceTable(
        asked,
        [sites.name(host) for host in sites.users],
        [sites.name(host) for host in sites.instances],
        len(sessions),
        work * PPM // room,
        rows,
    )


def policies_of(text: str) -> list[Policy]:
    """Policies by name.

    Raises:
        ConfigError: a name of none.
    """
    known = {one.name: one for one in POLICIES}
    names = known if text == "all" else dict.fromkeys(text.split(","))
    for name in names:
        if name not in known:
            raise ConfigError("policies", name, f"all, {', '.join(known)}")
    return [known[name] for name in names]


def _lost(asked: Asked, sites: ServiceSites) -> tuple[int, int] | None:
    """Instance that is lost, and when."""
    if not asked.fail:
        return None
    name, at, when = asked.fail.partition("@")
    if not at:
        raise ConfigError("fail", asked.fail, "an instance and a time, such as h3@30s")
    names = [sites.name(host) for host in sites.instances]
    if len(names) == 1:
        raise ConfigError("fail", asked.fail, "another instance that is left")
    (name,) = expand_nodes(name, names, "fail")[:1]
    at_ps = parse_duration(when, "fail")
    if not 0 < at_ps < asked.demand.window_ps:
        raise ConfigError("fail", asked.fail, "a time within that of sessions")
    return names.index(name), at_ps


def _row(policy: Policy, run: ServiceRun, lost_ps: int, window_ps: int) -> InstanceRow:
    times = latencies_of(run.turns)
    span = min(lost_ps, window_ps - lost_ps)
    near = [t for t in run.turns if lost_ps - span <= t.start_ps < lost_ps + span]
    before = [t for t in near if t.first_ps < lost_ps]
    after = [t for t in near if t.first_ps >= lost_ps]
    busy = [one.busy_ps * PPM // (window_ps * one.slots) for one in run.instances]
    return InstanceRow(
        policy.name,
        len(run.turns),
        int(np.rint(times.mean())),
        quantile(times, P50),
        quantile(times, P99),
        quantile(times, P999),
        sum(turn.is_moved for turn in run.turns),
        run.moved_bytes,
        run.between_bytes,
        max(busy),
        max(one.most_fetches for one in run.instances),
        max(one.most_held for one in run.instances) * run.service.context_bytes,
        quantile(latencies_of(before), P99) if lost_ps else 0,
        quantile(latencies_of(after), P99) if lost_ps else 0,
    )


def best_of(rows: Sequence[InstanceRow]) -> InstanceRow:
    """The policy whose slowest hundredth is fastest."""
    return min(rows, key=lambda row: row.p99_ps)
