"""Steps of many GPUs over planes: per flow, per packet, one plane; whole, and with a failure.

The network is that of draft-xu-rtgwg-fare-in-sun, its failures are those of its section 1: a
port, half a Y-cable, a leaf. What has failed, has done so before the step, and weights know it.
Each row is one run by packets; ``should_ppm`` is a closed form of sizes and rates alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.live.memory import cores
from fanfold.results.outcome import Outcome
from fanfold.run import MANY_HOSTS
from fanfold.scenario.failures import net_at_start
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import Program
from fanfold.sim.simulate import Simulation
from fanfold.study.plane_use import idle_ports, planes_of_pairs
from fanfold.study.plane_work import WORKLOADS, How, program_of
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.plane_paths import AUTO, Carried, PlanePaths, planes_asked
from fanfold.topo.routes import build_routes
from fanfold.units import format_duration

I64 = NDArray[np.int64]
TOPOLOGY = "superpod:gpus=64,planes=4"
N_BYTES = 32 << 20
N_TOKENS = 512
"""Of each GPU in one step of the dispatch."""
STATES = ("whole", "port", "half-cable", "leaf")
PPM = 10**6
NEVER_ENDS = -1
PERCENTILE = 99
Progress = Callable[[str], None]
Tell = Callable[[str, str], None]
"""Is told the name of a run, and how far it is."""


class Mode(NamedTuple):
    """How hosts and leaves use planes.

    one_plane: only the plane in which something fails. is_ordered: the transport takes packets
    in their order alone, and sends all again from a gap on, as RoCE's does; else it places them
    as they come. in_plane: of switches, where hosts do otherwise.
    """

    name: str
    routing: str
    queue_pairs: int = 1
    is_bound: bool = False
    one_plane: bool = False
    is_ordered: bool = False
    in_plane: Literal["", "flows", "packets"] = ""


MODES = (
    Mode("one plane, per packet", "packets", one_plane=True),
    Mode("per flow, loopbacks", "flows", is_ordered=True),
    Mode("per flow, 8 pairs a sub-port", "flows", queue_pairs=8, is_ordered=True),
    Mode("per flow, sub-ports' addresses", "flows", is_bound=True, is_ordered=True),
    Mode("per flowlet, 8 pairs a sub-port", "flowlets", queue_pairs=8),
    Mode("per packet, switches per flow", "packets", in_plane="flows"),
    Mode("per flow, switches per packet", "flows", in_plane="packets"),
    Mode("per packet", "packets"),
)


class StepRow(msgspec.Struct, frozen=True):
    """One run. Times in ps from the start of the step; NEVER_ENDS: some pair has no plane.

    step_ps: until all is acknowledged; p99_ps: until 99 % of the messages are. slower_ppm: the
    step by that of the same mode while all is whole; should_ppm: the same of the fullest port's
    bytes, by weights, over its rate. busiest_bytes: on one link; peak_bytes: the longest queue.
    depth: packets of one queue pair that came ahead of one still awaited. shared: ports that
    were left idle because queue pairs share others, of each choice of one of several: of the
    sub-ports at either end of a pair of hosts, and of a router's links that lead as near.
    planes: fewest and most that a pair of hosts uses. again: packets sent again.
    """

    workload: str
    state: str
    mode: str
    step_ps: int
    p99_ps: int
    slower_ppm: int
    should_ppm: int
    busiest_bytes: int
    peak_bytes: int
    depth: int
    shared: int
    planes: tuple[int, int]
    again: int


class StepTable(msgspec.Struct, frozen=True):
    """All rows, and what makes them again."""

    topology: str
    n_bytes: int
    n_tokens: int
    seed: int
    rows: tuple[StepRow, ...]
    command: str


class Asked(NamedTuple):
    """What is asked for.

    host, plane: of what fails. group: GPUs of one collective, 0 for all; they run side by
    side, each of GPUs as far apart as can be. modes: names of MODES, none for all.
    """

    topology: str = TOPOLOGY
    n_bytes: int = N_BYTES
    n_tokens: int = N_TOKENS
    workloads: tuple[str, ...] = WORKLOADS
    host: str = "h3"
    plane: int = 1
    seed: int = 1
    group: int = 0
    modes: tuple[str, ...] = ()


class _Ground(NamedTuple):
    """What all runs of a workload have in common."""

    asked: Asked
    net: Net
    workload: str
    program: Program


class _Ran(NamedTuple):
    """Row of a run, not yet beside that of the whole net, and the closed form's seconds."""

    row: StepRow
    ideal_s: float


def build_step_table(
    asked: Asked, progress: Progress | None = None, jobs: int = 0
) -> StepTable:
    """Run every workload in every state by every mode.

    Args:
        progress: is told what runs, and how far it is. jobs: runs at once, each in a process
            forked from this one; 0: as many as there are cores, where the net is large.

    Raises:
        ConfigError: a topology without planes, or a host or workload that is not there.
    """
    net = build_named_net(asked.topology, asked.seed)
    if (planes_asked(AUTO, net) or ()) == (0,):
        raise ConfigError("topology", asked.topology, "hosts with planes, such as superpod")
    modes = modes_of(asked.modes)
    how = How(asked.n_bytes, asked.n_tokens, asked.group, asked.seed)
    if jobs == 0:
        jobs = cores() if net.n_hosts >= MANY_HOSTS else 1
    rows: list[StepRow] = []
    for workload in asked.workloads:
        program = program_of(workload, net.n_hosts, how)
        rows += _rows_of(_Ground(asked, net, workload, program), modes, progress, jobs)
    rows.sort(key=lambda row: (asked.workloads.index(row.workload), STATES.index(row.state)))
    command = f"fanfold planes --topology {asked.topology} --size {asked.n_bytes}"
    command += f" --tokens {asked.n_tokens} --workloads {','.join(asked.workloads)}"
    command += f" --fail {asked.host}-plane{asked.plane} --seed {asked.seed}"
    command += f" --group {asked.group}" if asked.group else ""
    command += f" --modes '{';'.join(asked.modes)}'" if asked.modes else ""
    return StepTable(
        asked.topology, asked.n_bytes, asked.n_tokens, asked.seed, tuple(rows), command
    )


def modes_of(names: tuple[str, ...]) -> tuple[Mode, ...]:
    """Modes by their names, all where none is named.

    Raises:
        ConfigError: no such mode.
    """
    known = {mode.name: mode for mode in MODES}
    for name in names:
        if name not in known:
            raise ConfigError("modes", name, "; ".join(known))
    return tuple(known[name] for name in names) or MODES


def _rows_of(
    ground: _Ground, modes: Sequence[Mode], progress: Progress | None, jobs: int
) -> list[StepRow]:
    """Rows of a workload, mode by mode, each beside the whole net of the same mode."""
    has_halves = _has_halves(ground.asked, ground.net)
    states = [state for state in STATES if state != "half-cable" or has_halves]
    runs = {f"{mode.name}, {state}": (mode, state) for mode in modes for state in states}
    found = dict(_run_all(ground, runs, progress, jobs))
    rows = []
    for mode in modes:
        mine = [found[f"{mode.name}, {state}"] for state in states]
        base = next((one for one in mine if one.row.step_ps != NEVER_ENDS), None)
        rows += [_beside(one, base) for one in mine]
    return rows


def _run_all(
    ground: _Ground,
    runs: Mapping[str, tuple[Mode, str]],
    progress: Progress | None,
    jobs: int,
) -> Iterator[tuple[str, _Ran]]:
    """Each run by its name, several at once."""
    under_way: dict[str, str] = {}

    def tell(name: str, how_far: str) -> None:
        under_way[name] = f"{ground.workload}, {name}{how_far}"
        if progress is not None:
            progress("; ".join(under_way.values()))

    def work(name: str, tell: Tell | None) -> _Ran:
        return _run(ground, *runs[name], lambda text: tell(name, text) if tell else None)

    if jobs == 1 or len(runs) == 1:
        for name in runs:
            yield name, work(name, tell)
            del under_way[name]
        return
    from fanfold.run_beside import run_beside  # noqa: PLC0415 - large nets only

    for name, got in run_beside(list(runs), jobs, work, tell):
        if isinstance(got, ConfigError):
            raise got
        under_way.pop(name, None)
        yield name, got


def _run(ground: _Ground, mode: Mode, state: str, tell: Progress) -> _Ran:
    asked, net, workload, program = ground
    settings = settings_of(asked, net, mode, state)
    tell("")
    ideal_s = fullest_s(net, program, settings)
    tell(f": {program.src.size:,} messages by planes")
    try:
        sim = Simulation(net, build_routes(net), program, settings, seed=asked.seed)
    except ConfigError as error:
        if error.field != "receiver":
            raise
        return _Ran(_cut_off(workload, state, mode), ideal_s)
    while sim.step():
        at = sim.progress()
        tell(f": {at.n_done:,} of {at.n_items:,} done, {format_duration(at.now_ps)} in")
    return _Ran(_row(sim, sim.outcome(), (workload, state, mode.name)), ideal_s)


def _beside(one: _Ran, base: _Ran | None) -> StepRow:
    """The row with its step, and the closed form, by those of the whole net."""
    row = one.row
    if base is None or row.step_ps == NEVER_ENDS:
        return row
    return msgspec.structs.replace(
        row,
        slower_ppm=row.step_ps * PPM // base.row.step_ps,
        should_ppm=round(one.ideal_s * PPM / base.ideal_s),
    )


def _cut_off(workload: str, state: str, mode: Mode) -> StepRow:
    times = NEVER_ENDS, NEVER_ENDS, NEVER_ENDS, NEVER_ENDS
    return StepRow(workload, state, mode.name, *times, 0, 0, 0, 0, (0, 0), 0)


def settings_of(asked: Asked, net: Net, mode: Mode, state: str) -> Settings:
    """Settings of a mode in a state; the leaf is that of the host in the plane."""
    words = {
        "port": f"port {asked.host}-plane{asked.plane}",
        "half-cable": f"half-cable {asked.host}-plane{asked.plane}",
        "leaf": f"node {_leaf_of(asked, net)}",
    }
    failures = (Failure(0, fail=words[state]),) if state in words else ()
    return msgspec.convert(
        {
            "transport": "roce" if mode.is_ordered else "plain",
            "routing": mode.routing,
            "queue_pairs": mode.queue_pairs,
            "bound_pairs": mode.is_bound,
            **({"in_plane": mode.in_plane} if mode.in_plane else {}),
            "planes": str(asked.plane) if mode.one_plane else AUTO,
            "failures": msgspec.to_builtins(failures),
        },
        Settings,
    )


def _leaf_of(asked: Asked, net: Net) -> str:
    return net.node_name(int(net.dst[_cables(asked, net)[0]]))


def _has_halves(asked: Asked, net: Net) -> bool:
    """The port is of several cables."""
    return _cables(asked, net).size > 1


def _cables(asked: Asked, net: Net) -> I64:
    """Links of the port that fails."""
    names = [net.node_name(n) for n in range(net.n_hosts)]
    host = names.index(asked.host) if asked.host in names else -1
    mine = np.flatnonzero((net.src == host) & (net.plane == asked.plane))
    if not mine.size:
        got = f"{asked.host}-plane{asked.plane}"
        raise ConfigError("fail", got, "a host and a plane of it, as h3-plane1")
    return mine


def _row(sim: Simulation, out: Outcome, names: tuple[str, str, str]) -> StepRow:
    step_ps = NEVER_ENDS if out.stuck else out.end_ps
    done_ps = np.sort(out.item_ps)
    streams = sim.senders.streams
    planes = planes_of_pairs(sim.net, streams)
    return StepRow(
        *names,
        step_ps,
        int(done_ps[-(-done_ps.size * PERCENTILE // 100) - 1]),
        *(NEVER_ENDS, NEVER_ENDS),
        int(out.link_bytes.sum(axis=1).max()),
        int(out.link_peak_bytes.max()),
        int(streams["depth"].max()),
        idle_ports(sim.net, sim.ways, streams),
        (int(planes.min()), int(planes.max())),
        out.repairs[0],
    )


def fullest_s(net: Net, program: Program, settings: Settings) -> float:
    """Seconds in which the fullest port of a host's planes sends, or gets, its bytes.

    Sizes, rates and shares by path bandwidth; no headers, no queues, no latency.
    """
    net = net_at_start(net, settings)
    paths = PlanePaths(net, build_routes(net))
    n_bytes = bytes_by_plane(net, program, paths, planes_asked(settings.planes, net) or ())
    n_planes = n_bytes.shape[1]
    load = np.zeros((2, net.n_hosts, n_planes))
    np.add.at(load[0], program.src, n_bytes)
    np.add.at(load[1], program.dst, n_bytes)
    rate = np.zeros((net.n_hosts, n_planes))
    ups = np.flatnonzero((net.src < net.n_hosts) & (net.is_up != 0))
    np.add.at(rate, (net.src[ups], net.plane[ups]), net.bps[ups])
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(load > 0, load * 8 / rate, 0)
    return float(times.max())


def bytes_by_plane(
    net: Net, program: Program, paths: PlanePaths, asked: Sequence[int]
) -> NDArray[np.float64]:
    """(M, P) bytes of each message by plane, by what paths over each carry."""
    n_planes = int(net.plane.max()) + 1
    rows: list[list[float]] = []
    known: dict[Carried, int] = {}
    of = np.zeros(program.src.size, np.int64)
    ends = zip(program.src.tolist(), program.dst.tolist(), strict=True)
    for k, (src, dst) in enumerate(ends):
        carried = paths.bps_of(src, dst, asked)
        if carried not in known:
            by_plane, whole = dict(carried), sum(bps for _, bps in carried) or 1
            known[carried] = len(rows)
            rows.append([by_plane.get(plane, 0) / whole for plane in range(n_planes)])
        of[k] = known[carried]
    parts = np.array(rows).reshape(-1, n_planes)[of]
    return np.asarray(parts * program.n_bytes[:, None], np.float64)
