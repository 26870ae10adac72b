"""A link, a spine and a leaf fail in the middle of a transfer: what each scheme makes of it.

Each scheme is run undisturbed; its own tree says which element the last receiver is behind. It
is then run again with that element failing, by packets; everything in a row is counted there,
or says that it is so by definition.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.live.memory import cores
from fanfold.run import MANY_HOSTS
from fanfold.scenario.failures import Fault, read_faults
from fanfold.scenario.scenario import Scenario, Workload, check_scenario
from fanfold.scenario.settings import Failure, Settings
from fanfold.scenario.trees import build_site
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import FanTree, Phase, Program
from fanfold.sim.failing import Failing
from fanfold.sim.fan_trees import phase_at, trace_branches
from fanfold.sim.simulate import FANS, Simulation
from fanfold.study.failure_rows import (
    FEW,
    KINDS,
    FailureScheme,
    parameters,
    schemes_of,
)
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import Routes, build_routes
from fanfold.trees.settings import TreeSettings
from fanfold.units import PS_PER_US
from fanfold.work.collective import Collective

TOPOLOGY = "fat-tree:k=16,rate=400Gbps"
N_BYTES = 16 << 20
HELLO_PS = 20 * PS_PER_US
SETTINGS = Settings(hello_ps=HELLO_PS, notice_ps=10 * PS_PER_US, tree_start="standing")
"""A message of any scheme takes a router ten microseconds: HELLOs come each twenty."""
SLOW = ("pim-sm", "bier", "sr-p2mp")
"""Schemes whose receivers ask for long until new paths are there."""
SHARE_PPM = 500_000
PPM = 10**6
I64 = NDArray[np.int64]
Ways = dict[int, tuple[int, ...]]
"""Links from the source to each receiver."""
SOURCE = 0
NEVER_COMES = -1
NOBODY = -2
Progress = Callable[[str, str], None]


class FailureRow(msgspec.Struct, frozen=True):
    """One scheme and one failure; times in ps from the failure on, or of the whole transfer.

    detect_ps: until the first neighbour notices. gap_ps, last_gap_ps: until the first, and the
    last, receiver behind the element has DATA again after a silence; NEVER_COMES where none
    has, NOBODY where nobody was silent. lost_pkts: at the failure and for want of a way.
    gap_receivers: who lacked a packet at some time. behind: whose way led over the element.
    cut_off: of them without any way left. elsewhere_bytes: sent again, repairs and questions
    who lacks what, that came to receivers that lacked nothing. whole_ps: until the last
    receiver that can be reached has all; NEVER_COMES where one of them has not. base_ps: the
    same undisturbed. control: messages, each on each link; by_definition: why none are counted.
    """

    failure: str
    words: str
    at_ps: int
    scheme: str
    protection: str
    detect_ps: int
    gap_ps: int
    last_gap_ps: int
    lost_pkts: int
    gap_receivers: int
    behind: int
    cut_off: int
    elsewhere_bytes: int
    whole_ps: int
    base_ps: int
    control: int
    by_definition: str


class FailureTable(msgspec.Struct, frozen=True):
    """All rows, and what they were measured with; left_out: rows that do not fit, and why."""

    topology: str
    n_receivers: int
    n_bytes: int
    seed: int
    parameters: dict[str, str]
    rows: tuple[FailureRow, ...]
    command: str
    left_out: tuple[str, ...] = ()


class Asked(NamedTuple):
    """What is asked for; failures: of KINDS, or words as of ``lab fail``."""

    topology: str = TOPOLOGY
    n_bytes: int = N_BYTES
    schemes: str = "all"
    failures: tuple[str, ...] = KINDS
    share_ppm: int = SHARE_PPM
    settings: Settings = SETTINGS
    seed: int = 1


class _Ground(NamedTuple):
    asked: Asked
    net: Net
    routes: Routes
    receivers: tuple[int, ...]


def build_failure_table(
    asked: Asked, progress: Progress | None = None, jobs: int = 0
) -> FailureTable:
    """Run every scheme without and with each failure.

    Args:
        progress: is told a scheme and what it is at. jobs: schemes at once, each in a process
            forked from this one; 0: as many as there are cores, where the net is large.

    Raises:
        ConfigError: a topology, scheme or failure that is not there.
    """
    rows = schemes_of(asked.schemes)
    net = build_named_net(asked.topology, asked.seed)
    if net.n_hosts < 3:
        raise ConfigError("topology", f"{net.n_hosts} hosts", "3 or more")
    for words in asked.failures:  # before anything is run
        if words not in KINDS:
            read_faults(Settings(failures=(Failure(0, fail=words),)), net)
    ground = _Ground(asked, net, build_routes(net), tuple(range(1, net.n_hosts)))
    if jobs == 0:
        jobs = cores() if net.n_hosts >= MANY_HOSTS else 1
    all_rows = _all_rows(ground, rows, progress, jobs)
    found = [row for row in all_rows if isinstance(row, FailureRow)]
    order = {words: i for i, words in enumerate(asked.failures)}
    found.sort(key=lambda row: order[row.failure])
    return FailureTable(
        asked.topology,
        len(ground.receivers),
        asked.n_bytes,
        asked.seed,
        parameters(asked.settings, TreeSettings()),
        tuple(found),
        command_of(asked),
        tuple(row for row in all_rows if isinstance(row, str)),
    )


def command_of(asked: Asked) -> str:
    """What makes the same table again."""
    parts = ["fanfold failures", f"--topology {asked.topology}", f"--size {asked.n_bytes}"]
    parts += [f"--schemes {asked.schemes}", f"--seed {asked.seed}"]
    parts += [f'--failure "{one}"' for one in asked.failures]
    parts += [f"--hello {asked.settings.hello_ps}ps", f"--at {asked.share_ppm / 10_000:g}%"]
    return " ".join(parts)


def _all_rows(
    ground: _Ground, schemes: Sequence[FailureScheme], progress: Progress | None, jobs: int
) -> list[FailureRow | str]:
    """Rows of all schemes, in their order; those that take longest begin first."""
    if jobs == 1 or len(schemes) == 1:
        return [row for scheme in schemes for row in _rows_of(ground, scheme, progress)]
    from fanfold.run_beside import run_beside  # noqa: PLC0415 - large nets only

    by_name = {scheme.name: scheme for scheme in schemes}

    def work(name: str, tell: Progress | None) -> list[FailureRow | str]:
        return list(_rows_of(ground, by_name[name], tell))

    found: dict[str, list[FailureRow | str]] = {}
    late = [one.name for one in schemes if one.name in SLOW]
    names = [*late, *(name for name in by_name if name not in late)]
    for name, got in run_beside(names, jobs, work, progress):
        if isinstance(got, ConfigError):
            raise got
        found[name] = got
        if progress is not None:
            progress(name, f"done, {len(found)} of {len(schemes)}")
    return [row for name in by_name for row in found[name]]


def _rows_of(
    ground: _Ground, scheme: FailureScheme, progress: Progress | None
) -> Iterator[FailureRow | str]:
    """Rows of a scheme; words where one needs more room than a run has."""
    tell = progress or (lambda _scheme, _what: None)
    tell(scheme.name, "undisturbed")
    base_ps, ways = _undisturbed(ground, scheme)
    at_ps = base_ps * ground.asked.share_ppm // PPM
    for failure in ground.asked.failures:
        words = _words(ground, failure, ways)
        tell(scheme.name, words)
        try:
            cut = _play(ground, scheme, (Failure(at_ps, fail=words),), ways)
        except ConfigError as error:
            if error.field != "fidelity":
                raise
            yield f"{scheme.name}, {words}: {error.got}"
            continue
        yield _row(ground, scheme, cut, ways, (failure, words, base_ps))


def _undisturbed(ground: _Ground, scheme: FailureScheme) -> tuple[int, Ways]:
    """How long a transfer takes, and each receiver's way."""
    base = _play(ground, scheme, (), {})
    return int(base.outcome().host_ps[list(ground.receivers)].max()), ways_of(base)


def _play(
    ground: _Ground, scheme: FailureScheme, failures: tuple[Failure, ...], ways: Ways
) -> Simulation:
    """One run to its end; ways: of the run without failures, none in that."""
    asked, net = ground.asked, ground.net
    faults = read_faults(Settings(failures=failures), net)
    n_behind = sum(_is_behind(faults, way) for way in ways.values())
    is_few = n_behind * FEW <= len(ground.receivers)
    settings = msgspec.structs.replace(
        asked.settings,
        failures=failures,
        feedback=scheme.feedback,
        tree_repair="unicast" if is_few else "tree",
        protection=scheme.by_bift,
    )
    scenario = Scenario(
        asked.topology,
        seed=asked.seed,
        workload=Workload("broadcast", asked.n_bytes),
        settings=settings,
        trees=_trees_of(net, scheme.tree, settings),
    )
    check_scenario(scenario)
    program = _program(net, scheme, scenario, asked.n_bytes)
    sim = Simulation(net, ground.routes, program, settings, seed=asked.seed, whole=FANS)
    while sim.step():
        pass
    return sim


def _trees_of(net: Net, tree: TreeSettings, settings: Settings) -> TreeSettings:
    """The rendezvous point and the controller are not where trees of group 0 pass."""
    top = np.nonzero(net.tier == net.tier.max())[0]
    name = net.node_name(int(top[-1]))
    return msgspec.structs.replace(
        tree,
        rp=name,
        controller=name,
        reroute_ps=settings.reroute_ps,
        process_ps=settings.notice_ps,
        install_ps=settings.table_ps,
    )


def _program(net: Net, scheme: FailureScheme, scenario: Scenario, n_bytes: int) -> Program:
    work = Collective("broadcast", n_bytes, (SOURCE, *range(1, net.n_hosts)))
    row = scheme_of(scheme.program)
    program = row.build(work, SchemeOptions(), build_site(scenario, net))
    if not scheme.is_doubled:
        return program
    trees = msgspec.structs.replace(scenario.trees, group=1)
    other = msgspec.structs.replace(scenario, trees=trees)
    second = row.build(work, SchemeOptions(), build_site(other, net))
    return with_second(net, program, second, scenario.settings)


def with_second(net: Net, first: Program, second: Program, settings: Settings) -> Program:
    """MoFRR: who no longer hears the first tree takes the second, once that is noticed.

    The load of the second stream before that is left out.
    """
    faults = [fault for fault in read_faults(settings, net) if fault.cuts]
    if not faults:
        return first
    noticed_ps = faults[0].at_ps + settings.detect_ps
    hosts = np.array(first.fans[0].receivers, np.int64)
    trees = (
        FanTree(one.source, tuple(_taken(net, one, two, hosts, noticed_ps)))
        for one, two in zip(first.trees, second.trees, strict=True)
    )
    n_mending = first.n_mending + second.n_mending
    return first._replace(trees=tuple(trees), n_mending=n_mending)


def _taken(
    net: Net, first: FanTree, second: FanTree, hosts: I64, noticed_ps: int
) -> Iterator[Phase]:
    """Phases of the first tree, the second where it is better, the first where it is mended."""
    yield from (phase for phase in first.phases if phase.from_ps < noticed_ps)
    links, left = set[int](), hosts
    for tree in (first, second):
        branches = trace_branches(net, phase_at(tree, noticed_ps), left)
        links.update(branches.links.tolist())
        left = left[branches.path[:, 0] < 0]
    yield Phase(noticed_ps, tuple(sorted(links)), (0,) * len(links))
    for phase in first.phases:
        if phase.from_ps > noticed_ps and left.size:
            n_left = int((trace_branches(net, phase, hosts).path[:, 0] < 0).sum())
            if n_left < left.size:
                yield phase


def ways_of(sim: Simulation) -> Ways:
    """Links from the source to each receiver, by the tables that stand at the end of a run."""
    fans, net = sim.fans, sim.net
    tables = fans.bier.tables
    found: Ways = {}
    for part in fans.parts:
        e = fans.table_of(part.fan)
        for host in part.fan.receivers:
            si, bit = divmod(int(fans.bfr_ids[host]) - 1, fans.n_bits)
            links = [part.nic]
            while (node := int(net.dst[links[-1]])) >= net.n_hosts and len(links) < 64:
                row = ((node - net.n_hosts) * fans.n_si + si) * fans.n_tables + e
                port = int(tables.nbr_of[row, bit])
                if port <= 0:
                    break
                links.append(int(net.first_out[node]) + port - 1)
            found[host] = tuple(links)
    return found


def _words(ground: _Ground, failure: str, ways: Ways) -> str:
    """Words of what fails: on the way to the last receiver, where no words are given."""
    net = ground.net
    if failure not in KINDS:
        return failure
    way = ways[ground.receivers[-1]]
    name = net.node_name
    routers = [int(net.dst[link]) for link in way[:-1]]
    if failure == "leaf":
        return f"node {name(routers[-1])}"
    if len(routers) < 2:
        raise ConfigError("failures", failure, f"leaf: there is one router on {net.name}")
    if failure == "spine":
        return f"node {name(max(routers, key=lambda node: int(net.tier[node])))}"
    return f"link {name(routers[-2])}-{name(routers[-1])}"


def _row(
    ground: _Ground,
    scheme: FailureScheme,
    sim: Simulation,
    ways: Ways,
    told: tuple[str, str, int],
) -> FailureRow:
    failure, words, base_ps = told
    failing, net = sim.failing, ground.net
    assert failing is not None
    fault = failing.faults[0]
    hosts = np.array(ground.receivers, np.int64)
    behind = np.array(
        [not set(fault.links).isdisjoint(ways[host]) for host in ground.receivers]
    )
    cut_off = _cut_off(net, failing)[hosts]
    out, nodes = sim.outcome(), sim.world.nodes
    done_ps = out.host_ps[hosts]
    missed = (nodes["mended"][hosts] > 0) | (out.got_bytes[hosts] < out.due_bytes[hosts])
    back = nodes["back_ps"][hosts][behind & ~cut_off]
    is_silent = nodes["gap_ps"][hosts][behind & ~cut_off] >= 0
    is_whole = bool((done_ps[~cut_off] >= 0).all())
    silent_ever = back[is_silent]
    none = NEVER_COMES if not is_whole else NOBODY
    detect = [at for at, _, _ in failing.lost]
    return FailureRow(
        failure,
        words,
        fault.at_ps,
        scheme.name,
        scheme.protection,
        min(detect) - fault.at_ps if detect else NEVER_COMES,
        int(silent_ever.min()) - fault.at_ps if silent_ever.size else none,
        int(silent_ever.max()) - fault.at_ps if silent_ever.size else none,
        int(out.link_drops.sum() + nodes["n_dead"].sum()),
        int(missed.sum()),
        int(behind.sum()),
        int((cut_off & behind).sum()),
        int(nodes["spare_bytes"][hosts][~missed].sum()),
        int(done_ps[~cut_off].max()) if is_whole else NEVER_COMES,
        base_ps,
        _control(scheme, sim, failing),
        scheme.control,
    )


def _is_behind(faults: Sequence[Fault], way: tuple[int, ...]) -> bool:
    return any(not set(fault.links).isdisjoint(way) for fault in faults)


def _cut_off(net: Net, failing: Failing) -> NDArray[np.bool_]:
    """(H,) whether no way leads from the source to a host while all that failed is down."""
    dead = {link for fault in failing.faults if fault.cuts for link in fault.links}
    reached, todo = {SOURCE}, [SOURCE]
    while todo:
        node = todo.pop()
        if node < net.n_hosts and node != SOURCE:
            continue
        for link in range(int(net.first_out[node]), int(net.first_out[node + 1])):
            to = int(net.dst[link])
            if link not in dead and to not in reached:
                reached.add(to)
                todo.append(to)
    return np.array([host not in reached for host in range(net.n_hosts)])


def _control(scheme: FailureScheme, sim: Simulation, failing: Failing) -> int:
    """Messages that the failure made: NOTICEs, or those of the tree's protocol."""
    if scheme.control:
        return 0
    if scheme.by_bift == "notice":
        failing.sessions.flood()
        return failing.sessions.n_notices
    return sim.program.n_mending
