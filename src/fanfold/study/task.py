"""One scheme at one point: the piece of work that processes and clusters are handed."""

import functools
from pathlib import Path

import msgspec
from blake3 import blake3

from fanfold.errors import ConfigError
from fanfold.results.rows import Place, rows_of
from fanfold.results.rows import Task as RunTask
from fanfold.results.store import Store
from fanfold.results.writer import RunKey
from fanfold.run import DRIVER, code_version
from fanfold.scenario.fidelity import left_out
from fanfold.scenario.scenario import Fidelity
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import FAN_SCHEMES, scheme_of
from fanfold.study.ask import Setting, model_of
from fanfold.study.catalog import kind_of
from fanfold.study.costs import link_costs, step_costs
from fanfold.study.fabrics import check_size
from fanfold.study.keys import read_value
from fanfold.study.measure import Moved, is_whole, settings_of, stage_of, took_ps
from fanfold.study.phases import I64, Graph, Style
from fanfold.study.result import Row
from fanfold.study.tree_way import best_move
from fanfold.topo.net import Net
from fanfold.work.count_text import parse_count
from fanfold.work.parallel import Degrees

ID_DIGITS = 16
RELAYS = ("ring", "chain", "binary-tree", "double-binary-tree", "halving-doubling")
_SOURCES = ("study",)
REFUSED = ("workload", "settings.transport")
"""Fields whose faults are one scheme's alone."""


class StudyTask(msgspec.Struct, frozen=True):
    """values: of every key, as text. point: those of the sweep."""

    kind: str
    scheme: str
    values: dict[str, str]
    point: dict[str, str]
    seed: int


class Fault(msgspec.Struct, frozen=True):
    """A ConfigError as a value: an exception of ours does not survive between processes."""

    field: str
    got: int | str
    allowed: str


def setting_of(task: StudyTask) -> Setting:
    """Everything read.

    Raises:
        ConfigError: a value of a key, or the model.
    """
    kind = kind_of(task.kind)
    model, degrees = model_of(task.values["model"], parse_count(task.values["parameters"]))
    values = {key.name: read_value(key, task.values[key.name]) for key in kind.all_keys}
    gpus = int(values["gpus"])
    return Setting(model, degrees or Degrees(gpus=gpus), values, task.seed)


def style_of(scheme: str) -> Style:
    """How a scheme sends to many."""
    if scheme_of(scheme).protocol:
        return "tree"
    if scheme in FAN_SCHEMES:
        return "fan"
    return "relay" if scheme in RELAYS else "copies"


def task_id(task: StudyTask) -> str:
    """Digest of all that can change a row: the task, files that it names, all sources."""
    digest = blake3(msgspec.json.encode(task, order="deterministic"))
    for text in sorted({*task.values.values(), *task.point.values()}):
        path = Path(text.removeprefix("import:"))
        if text and path.is_file():
            digest.update(blake3(path.read_bytes()).digest())
    digest.update(study_version().encode())
    return digest.hexdigest()[:ID_DIGITS]


@functools.cache
def study_version() -> str:
    """The version of runs, and a digest of what a study adds to them."""
    root = Path(__file__).parent.parent
    digest = blake3(code_version().encode())
    for file in sorted(p for name in _SOURCES for p in (root / name).rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return f"{code_version()}.{digest.hexdigest()[:8]}"


def run_task(task: StudyTask, folder: str) -> Row | Fault:
    """One row; what the scheme cannot do is told in it, what nobody could do is a fault."""
    try:
        return _row(task, Store(Path(folder)))
    except ConfigError as error:
        if not error.field.startswith(REFUSED):
            got = error.got if isinstance(error.got, int) else str(error.got)
            return Fault(error.field, got, error.allowed)
        refusal = f"{error.field}: takes {error.allowed}; not {error.got}"
        return Row(task.scheme, _point(task), refusal=refusal)


def _row(task: StudyTask, store: Store) -> Row:
    setting, style = setting_of(task), style_of(task.scheme)
    graph = kind_of(task.kind).graph(setting, style)
    stage = stage_of(graph.topology, task.seed)
    check_size(graph.topology, stage.net.n_hosts, graph.n_hosts)
    settings = settings_of(
        stage,
        setting.number("ecmp"),
        graph.n_slots,
        graph.bitstring_bits,
        setting.number("loss"),
        array_slots=graph.array_slots,
    )
    if setting.word("link_keys") == "required":
        settings = msgspec.structs.replace(settings, link_keys=True)
    scheme, fidelity = scheme_of(task.scheme), _fidelity(setting)
    moved: dict[str, Moved] = {}
    lasts: dict[str, int] = {}
    for phase in graph.phases:
        if not phase.is_move:
            lasts[phase.name] = phase.idle_ps or _most(phase.compute_ps)
            continue
        moved[phase.name] = best_move(scheme, phase, stage, settings, task.seed, fidelity)
        lasts[phase.name] = took_ps(moved[phase.name].outcome)
    values = _values(graph, stage.net, lasts, moved)
    run_id = _keep(task, graph, stage.net, moved, store, settings)
    notes = dict.fromkeys(n for n in (graph.note, *(m.note for m in moved.values())) if n)
    rungs = list(dict.fromkeys(m.outcome.fidelity for m in moved.values()))
    lacks = left_out("flow" if "flow" in rungs else "packet", settings)
    stuck = [m.outcome.reason for m in moved.values() if not is_whole(m.outcome)]
    return Row(
        task.scheme,
        _point(task),
        fidelity=", ".join(rungs) or "computed",
        run_id=run_id,
        values=values,
        note="; ".join([*notes, *([lacks] if lacks else []), *stuck]),
        unranked=lacks,
    )


def _most(times_ps: I64 | None) -> int:
    return 0 if times_ps is None else int(times_ps.max(initial=0))


def _point(task: StudyTask) -> dict[str, int | str]:
    """Values of the sweep, as they were given."""
    return dict(task.point)


def _fidelity(setting: Setting) -> Fidelity:
    rungs: dict[str, Fidelity] = {
        "auto": "auto",
        "packet": "packet",
        "train": "train",
        "flow": "flow",
    }
    return rungs[setting.word("fidelity")]


def _values(
    graph: Graph, net: Net, lasts: dict[str, int], moved: dict[str, Moved]
) -> dict[str, int]:
    outcomes = {name: m.outcome for name, m in moved.items()}
    values = step_costs(graph, lasts, outcomes)
    if moved:
        sources = _sources(graph)
        values |= link_costs(net, sources, list(outcomes.values()), has_exit=graph.has_exit)
        setups = [m.program.setup for m in moved.values()]
        values |= {
            "setup_ps": max(setup.ps for setup in setups),
            "control_msgs": sum(setup.n_messages for setup in setups),
            "state_entries": sum(setup.n_entries for setup in setups),
            "most_entries": max(setup.most_entries for setup in setups),
        }
        first = max(m.first_ps for m in moved.values())
        if first:
            values["first_ps"] = first
    return values


def _sources(graph: Graph) -> tuple[int, ...]:
    """Hosts that data comes from, of all phases."""
    hosts: dict[int, None] = {}
    for phase in graph.phases:
        for cast in phase.casts:
            if phase.way == "out":
                hosts[cast.source] = None
            else:
                hosts.update(dict.fromkeys(cast.receivers))
        for work in phase.collectives:
            members = work.hosts if work.kind != "broadcast" else work.hosts[:1]
            hosts.update(dict.fromkeys(members))
    return tuple(hosts)


def _keep(
    task: StudyTask,
    graph: Graph,
    net: Net,
    moved: dict[str, Moved],
    store: Store,
    settings: Settings,
) -> str:
    """The tables of the phase that put most bytes on links, into the store."""
    if not moved:
        return ""
    name = max(moved, key=lambda n: int(moved[n].outcome.link_bytes.sum()))
    most, phase = moved[name], next(p for p in graph.phases if p.name == name)
    program = most.program
    place = Place(
        net.n_hosts,
        net.n_nodes,
        *(net.src, net.dst, net.bps, net.prop_ps, net.plane),
        net.node_name,
    )
    run_task_row = RunTask(
        scheme=task.scheme,
        topology=graph.topology,
        workload=f"{task.kind} {name}",
        n_bytes=int(most.outcome.due_bytes.sum()),
        hosts=tuple(range(graph.n_hosts)),
        sources=_sources(graph._replace(phases=(phase,))),
        n_messages=program.src.size,
        fans=tuple((f.source, len(f.receivers), f.n_bytes) for f in program.fans),
        fidelity_why=most.choice.why,
        segment_pkts=most.choice.segment_pkts,
        transport="plain",
        loss_ppb=settings.loss_ppb,
        left_out=left_out(most.outcome.fidelity, settings),
        error_ppm=most.choice.error_ppm,
        setup=program.setup,
        n_sums=len(program.sums),
    )
    key = RunKey(task_id(task), DRIVER, task.seed, code_version())
    store.put(
        key,
        rows_of(place, run_task_row, most.outcome),
        {"task.json": msgspec.json.encode(task)},
    )
    return key.run_id
