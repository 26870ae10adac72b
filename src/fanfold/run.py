"""A scenario through the simulator: for each scheme a program, for each program a kept run.

A run that is in the store, of the same scenario, scheme, seed and sources, is not made again.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.live.clock import now_ps
from fanfold.live.memory import cores
from fanfold.nearest import one_of
from fanfold.results.outcome import Outcome
from fanfold.results.rows import Place, Task, rows_of
from fanfold.results.store import SCENARIO, Store
from fanfold.results.writer import RunKey
from fanfold.scenario.fidelity import Choice, choose, left_out
from fanfold.scenario.horizon import check_horizon, check_links
from fanfold.scenario.least import check_room
from fanfold.scenario.matrix import load_matrix
from fanfold.scenario.ranks import place_ranks, place_trace, sources_of
from fanfold.scenario.scenario import (
    ALL,
    MATRIX_SCHEME,
    Scenario,
    bundle,
    load_scenario,
    run_id,
)
from fanfold.scenario.settings import Settings
from fanfold.scenario.trees import build_site, with_feedback
from fanfold.scenario.width import bits_of
from fanfold.schemes.catalog import CATALOG, FAN_SCHEMES, Scheme
from fanfold.schemes.fanfold import SUM_KINDS
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import Fan, Program, Sum, build_program
from fanfold.schemes.program_rules import check_program, planes_note
from fanfold.schemes.traced import build_traced
from fanfold.schemes.tree_fans import Site
from fanfold.sim.fluid import run_fluid
from fanfold.sim.fluid_exchange import run_exchange
from fanfold.sim.simulate import FANS, MESSAGES, SUMS, Hop, Simulation, simulate
from fanfold.sim.timeline import Step, bytes_of, record_of, start_of, text_of, timeline
from fanfold.toml_table import write_table
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import Routes, build_routes
from fanfold.version import VERSION
from fanfold.work.collective import Collective
from fanfold.work.trace import Trace, busy_ps
from fanfold.work.trace_files import load_trace

DRIVER = "sim"
MANY_HOSTS = 512
"""From so many on schemes run at once where nobody says how many."""
MAX_JOINS = 131_072
"""Ranks of a tree that is set up when nobody named its protocol: some seconds."""
_SOURCES = (
    *("core", "kernels", "results", "scenario", "schemes", "sim", "topo", "trees", "wire"),
    "work",
)
"""Packages that can change what a run gives."""
_OF_A_SCHEME = ("workload", "settings.transport", "settings.feedback", "fidelity")
"""Faults that may be one scheme's alone: what it cannot do is told, and others go on."""

Progress = Callable[[str, Choice, Mapping[str, int]], None]
"""Called now and then with the scheme, its fidelity, and what the simulator tells."""
Work = Callable[[str, Progress | None], "Run"]


class Run(NamedTuple):
    """What became of one scheme.

    run_id: empty when it was refused. wall_ps: what this process spent on it, 0 when it was
    kept already. n_hops: packets moved over links, 0 when kept or at flow fidelity. refusal:
    why it cannot do the collective, empty when it can. row: of ``query.comparison``, where
    the process that ran it has asked already.
    """

    scheme: str
    run_id: str
    wall_ps: int = 0
    n_hops: int = 0
    refusal: str = ""
    row: dict[str, object] | None = None


class Story(NamedTuple):
    """What became of one packet of a run.

    what: the item it belongs to. is_same: made by the very sources that made the run.
    """

    run_id: str
    scheme: str
    segment_pkts: int
    what: str
    is_same: bool
    steps: list[Step]
    node_name: Callable[[int], str]


class Stage(NamedTuple):
    """A net with its routes, and who is who on it; None instead of ranks for a matrix.

    site: the net as tree protocols see it. whole: FANS or SUMS where some scheme of the
    scenario sends such, so that all take the loop that can. node_name: made once of each node.
    trace, hosts: instead of work, host by rank.
    """

    net: Net
    routes: Routes
    work: Collective | None
    whole: int
    site: Site
    node_name: Callable[[int], str]
    trace: Trace | None = None
    hosts: tuple[int, ...] = ()


class Job(NamedTuple):
    """One scheme, ready to run; the program in the compact form at flow fidelity only.

    stand_ins: who did what the scheme cannot do of a trace, in words.
    """

    scheme: str
    program: Program
    choice: Choice
    stand_ins: str = ""


def run_scenario(
    scenario: Scenario,
    store: Store,
    *,
    use_cache: bool = True,
    progress: Progress | None = None,
    trace: Trace | None = None,
    jobs: int = 1,
) -> list[Run]:
    """Run every scheme of a scenario that is not in the store yet.

    Args:
        trace: of the scenario, where it is loaded already. jobs: schemes at once, each in a
            process of its own; 0: as many as cores where the net is large.

    Returns:
        One run for each scheme, in the order asked for; those that cannot do the collective
        with their reason.

    Raises:
        ConfigError: a fault of the scenario, or no scheme that can do it. CheckFailed: a
            process died.
    """
    stage = functools.cache(lambda: build_stage(scenario, trace))
    names = scheme_names(scenario)
    found = _kept(scenario, names, store) if use_cache else dict[str, Run | ConfigError]()
    left = [name for name in dict.fromkeys(names) if name not in found]
    if jobs == 0:
        jobs = cores() if len(left) > 1 and stage().net.n_hosts >= MANY_HOSTS else 1
    work = functools.partial(_run, scenario, stage, store)
    for name, got in _each(left, jobs, work, store, progress):
        is_its_own = isinstance(got, Run) or got.field.startswith(_OF_A_SCHEME)
        if isinstance(got, ConfigError) and (scenario.matrix or not is_its_own):
            raise got
        found[name] = got
    return _with_refusals([(name, found[name]) for name in names])


def _kept(
    scenario: Scenario, names: Sequence[str], store: Store
) -> dict[str, Run | ConfigError]:
    ids = {name: run_id(scenario, name, code_version()) for name in names}
    return {name: Run(name, one) for name, one in ids.items() if store.is_sound(one)}


def _each(
    names: Sequence[str], jobs: int, work: Work, store: Store, progress: Progress | None
) -> Iterator[tuple[str, Run | ConfigError]]:
    """Run schemes here one by one, or in processes beside this one."""
    if jobs > 1 and len(names) > 1:
        from fanfold.run_beside import run_beside, with_row  # noqa: PLC0415 - large nets only

        yield from run_beside(names, jobs, functools.partial(with_row, work, store), progress)
        return
    for name in names:
        try:
            yield name, work(name, progress)
        except ConfigError as error:
            yield name, error


def _with_refusals(got: Sequence[tuple[str, Run | ConfigError]]) -> list[Run]:
    """Runs, in words where a scheme cannot do it; where none can that is an error."""
    runs = [
        Run(name, "", refusal=f"{one.field}: takes {one.allowed}; not {one.got}")
        if isinstance(one, ConfigError)
        else one
        for name, one in got
    ]
    if isinstance(first := got[0][1], ConfigError) and all(run.refusal for run in runs):
        raise first
    return runs


def _check_joins(scenario: Scenario, name: str, stage: Stage) -> None:
    """Of all schemes, those whose tree takes minutes to set up run only when named."""
    work = stage.work
    if scenario.schemes != (ALL,) or work is None or not _scheme(name).protocol:
        return
    if len(work.hosts) > MAX_JOINS:
        allowed = f"{MAX_JOINS:,} ranks among all schemes, each joins by messages: name {name}"
        raise ConfigError("workload.ranks", len(work.hosts), allowed)


def scheme_names(scenario: Scenario) -> tuple[str, ...]:
    """Schemes of a scenario: all rows of the catalog, or those named.

    Raises:
        ConfigError: an unknown name.
    """
    if scenario.matrix:
        return (MATRIX_SCHEME,)
    if scenario.schemes == (ALL,):
        return tuple(scheme.name for scheme in CATALOG)
    for name in scenario.schemes:
        _scheme(name)
    return scenario.schemes


def build_stage(scenario: Scenario, trace: Trace | None = None) -> Stage:
    """Net, routes and ranks of a scenario.

    Raises:
        ConfigError: a fault of the topology, or more ranks than hosts.
    """
    net = build_named_net(scenario.topology, scenario.seed)
    check_links(net)
    workload = scenario.workload
    work = place_ranks(workload, net.n_hosts, scenario.seed) if workload else None
    hosts = tuple[int, ...]()
    if (asked := scenario.trace) is not None:
        trace = trace or trace_of(scenario)
        assert trace is not None
        if all(phase.kind == "compute" for phase in trace.phases):
            raise ConfigError("trace.path", "nothing that is sent", "a trace that communicates")
        order = asked.order
        hosts = place_trace(order, trace.n_ranks, net.n_hosts, scenario.seed)
    whole = MESSAGES
    if not scenario.matrix and not FAN_SCHEMES.isdisjoint(scheme_names(scenario)):
        has_sums = "fanfold" in scheme_names(scenario) and (not work or work.kind in SUM_KINDS)
        whole = SUMS if has_sums else FANS
    site = build_site(scenario, net)
    names = functools.cache(net.node_name)
    return Stage(net, build_routes(net), work, whole, site, names, trace, hosts)


def trace_of(scenario: Scenario) -> Trace | None:
    """The trace that a scenario names, if it does.

    Raises:
        ConfigError: what cannot be read, or not modelled.
    """
    if (asked := scenario.trace) is None:
        return None
    return load_trace(asked.form, Path(asked.path), asked.skip_unknown, asked.ops_per_s)


def build_job(scenario: Scenario, name: str, stage: Stage) -> Job:
    """Program of one scheme, and the fidelity that its work allows.

    Raises:
        ConfigError: the scheme cannot do the collective, or in no time that can be told.
    """
    stand_ins = ""
    if stage.trace is not None:
        scheme = _scheme(name)
        made = build_traced(stage.trace, stage.hosts, scheme)
        program, stand_ins = made.program, made.note
        program = scheme.placed(program, stage.site)
    elif stage.work is None:
        program = load_matrix(Path(scenario.matrix), stage.net.n_hosts)
        check_program(program, stage.net.n_hosts)
    else:
        program = _scheme(name).build(stage.work, SchemeOptions(compact=True), stage.site)
    settings = scenario.settings
    program = with_feedback(program, settings)
    check_horizon(stage.net, program, settings)
    choice = choose(scenario.fidelity, stage.net, stage.routes, program, settings)
    if choice.rung != "flow":
        check_room(settings, program, stage.net.n_hosts, choice.segment_pkts)
    is_compact = program.chunks > 1 or program.exchange is not None
    if stage.work is not None and choice.rung != "flow" and is_compact:
        plain = _scheme(name).build(stage.work, SchemeOptions(), stage.site)
        program = with_feedback(plain, settings)
    return Job(name, program, choice, stand_ins)


def simulate_job(
    scenario: Scenario, stage: Stage, job: Job, progress: Progress | None = None
) -> Outcome:
    """Run one job."""
    net, routes, settings = stage.net, stage.routes, scenario.settings
    if job.choice.rung == "flow":
        if (exchange := job.program.exchange) is not None:
            return run_exchange(net, routes, exchange, settings, seed=scenario.seed)
        return run_fluid(net, routes, job.program, settings, seed=scenario.seed)
    tell = functools.partial(progress, job.scheme, job.choice) if progress else None
    return simulate(
        net,
        routes,
        job.program,
        settings,
        seed=scenario.seed,
        segment_pkts=job.choice.segment_pkts,
        whole=stage.whole,
        progress=tell,
    )


def trace_run(
    store: Store, start: str, item: int, packet: int, progress: Progress | None = None
) -> Story:
    """Run a kept run again, and follow one packet.

    Args:
        start: of its run id.

    Raises:
        ConfigError: no such run, item or packet, or a run without packets.
    """
    name = store.find(start)
    scenario = load_scenario(store.place(name) / SCENARIO)
    scheme = MATRIX_SCHEME if scenario.matrix else scenario.schemes[0]
    stage = build_stage(scenario)
    job = build_job(scenario, scheme, stage)
    if job.choice.rung == "flow":
        raise ConfigError("RUN", f"{name} at flow fidelity", "a run that moves packets")
    settings, program = scenario.settings, job.program
    if not 0 <= item < program.n_items:
        raise ConfigError("--item", item, f"0..{program.n_items - 1}, items of the program")
    n_pkts = -(-bytes_of(program, item) // settings.payload_bytes)
    if n_pkts == 0:
        raise ConfigError("--item", item, "an item that sends, not a host that computes")
    if not 0 <= packet < n_pkts:
        raise ConfigError("--packet", packet, f"0..{n_pkts - 1}, packets of item {item}")
    segment = job.choice.segment_pkts
    record = record_of(program, settings, segment, item, packet)
    hops: list[Hop] = []
    part, n_parts = 0, 1
    while part < n_parts:  # the loop follows one part of a fan at a time
        sim = Simulation(
            stage.net,
            stage.routes,
            program,
            settings,
            seed=scenario.seed,
            segment_pkts=segment,
        )
        n_parts = sim.parts_of(item)
        sim.watch(item, record, part)
        while sim.step():
            if progress is not None:
                progress(scheme, job.choice, sim.progress()._asdict())
        hops += sim.hops()
        part += 1
    steps = timeline(stage.net, settings, hops, start_of(program, item))
    is_same = run_id(scenario, scheme, code_version()) == name
    what = text_of(stage.net, program, item)
    return Story(name, scheme, segment, what, is_same, steps, stage.net.node_name)


@functools.cache
def code_version() -> str:
    """The version, and a digest of all sources that a run can depend on."""
    root = Path(__file__).parent
    digest = blake3()
    files = [*root.glob("*.py"), *(p for s in _SOURCES for p in (root / s).rglob("*.py"))]
    for file in sorted(files):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return f"{VERSION}+{digest.hexdigest()[:8]}"


def _run(
    scenario: Scenario,
    stage: Callable[[], Stage],
    store: Store,
    name: str,
    progress: Progress | None,
) -> Run:
    name_of_run = run_id(scenario, name, code_version())
    placed = stage()
    _check_joins(scenario, name, placed)
    job = build_job(scenario, name, placed)
    if job.choice.rung != "flow":
        warm(placed.whole)
    began = now_ps()
    job, outcome = _simulate_or_flow(scenario, placed, job, progress)
    wall_ps = now_ps() - began
    _keep(scenario, placed, job, outcome, store, name_of_run)
    n_hops = 0 if job.choice.rung == "flow" else outcome.n_hops
    return Run(name, name_of_run, wall_ps, n_hops)


def _simulate_or_flow(
    scenario: Scenario, stage: Stage, job: Job, progress: Progress | None
) -> tuple[Job, Outcome]:
    """Run one job; at flow fidelity where packets find no room and nobody asked for them."""
    try:
        return job, simulate_job(scenario, stage, job, progress)
    except ConfigError as error:
        if scenario.fidelity != "auto" or error.field != "fidelity":
            raise
        why = f"{job.choice.why}; no room for it as {job.choice.rung}: {error.got}"
    coarse = msgspec.structs.replace(scenario, fidelity="flow")
    job = build_job(coarse, job.scheme, stage)
    job = job._replace(choice=job.choice._replace(why=why))
    return job, simulate_job(coarse, stage, job, progress)


@functools.cache
def warm(whole: int) -> None:
    """Compile the loop, or load it, before a clock runs: a message, and a fan, and a sum.

    The loop without fans compiles in half the time.
    """
    net = build_named_net("star:hosts=2")
    message, no_edge = np.array([[0, 1, 1, 0]]), np.zeros((0, 2), np.int64)
    fans = (Fan(0, (1,), 1),) if whole else ()
    sums = (Sum((0, 1), 1),) if whole == SUMS else ()
    program = build_program(message, no_edge, fans=fans, folds=whole > 0, sums=sums)
    simulate(net, build_routes(net), program, Settings(), seed=0)


def _keep(
    scenario: Scenario, stage: Stage, job: Job, outcome: Outcome, store: Store, name: str
) -> None:
    """Tables of one run, and the scenario that makes it again, into the store."""
    alone, files = bundle(scenario, job.scheme)
    net, program, work = stage.net, job.program, stage.work
    place = Place(
        net.n_hosts,
        net.n_nodes,
        *(net.src, net.dst, net.bps, net.prop_ps, net.plane),
        stage.node_name,
    )
    sources = sources_of(work) if work else _sources(program)
    kind, n_bytes = MATRIX_SCHEME, int(program.n_bytes.sum())
    hosts, busy = stage.hosts, 0
    if work is not None:
        kind, n_bytes, hosts = work.kind, work.n_bytes, work.hosts
    elif scenario.trace is not None and stage.trace is not None:
        kind, busy = scenario.trace.form, max(busy_ps(stage.trace))
        n_bytes = sum(phase.n_bytes for phase in stage.trace.phases)
    task = Task(
        scheme=job.scheme,
        topology=alone.topology,
        workload=kind,
        n_bytes=n_bytes,
        hosts=hosts,
        sources=sources,
        n_messages=program.n_messages,
        fans=tuple((f.source, len(f.receivers), f.n_bytes) for f in program.fans),
        fidelity_why=job.choice.why,
        segment_pkts=job.choice.segment_pkts,
        transport=scenario.settings.transport,
        loss_ppb=scenario.settings.loss_ppb,
        left_out=left_out(outcome.fidelity, scenario.settings),
        error_ppm=job.choice.error_ppm,
        planes=planes_note(program, stage.net, scenario.settings.planes),
        bitstring_bits=bits_of(scenario.settings, program, net.n_hosts),
        setup=program.setup,
        n_sums=len(program.sums),
        stand_ins=job.stand_ins,
        busy_ps=busy,
    )
    key = RunKey(name, DRIVER, scenario.seed, code_version())
    kept: dict[str, bytes] = {**files, SCENARIO: write_table(alone).encode()}
    store.put(key, rows_of(place, task, outcome), kept)


def _sources(program: Program) -> tuple[int, ...]:
    fans = [fan.source for fan in program.fans]
    members = [host for one in program.sums for host in one.hosts]
    return tuple(np.unique([*program.src.tolist(), *fans, *members]).tolist())


def _scheme(name: str) -> Scheme:
    rows = {scheme.name: scheme for scheme in CATALOG}
    if name not in rows:
        raise ConfigError("schemes", name, one_of(name, [ALL, *rows]))
    return rows[name]
