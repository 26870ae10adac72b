"""All that a report is made of: a study or a comparison, and what its kept runs hold."""

import tempfile
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.errors import ConfigError
from fanfold.report.comparison import comparison_of, named_of, scenario_text
from fanfold.report.gap_store import kept_gap
from fanfold.report.heat import Load
from fanfold.report.layout import Layout, place_nodes
from fanfold.report.points import count_of
from fanfold.report.ranking import best_first
from fanfold.report.replay import Replay, replay_of
from fanfold.results import query
from fanfold.results.store import DIGESTS, SCENARIO, Store
from fanfold.run import Story, run_scenario, trace_run
from fanfold.scenario.scenario import Scenario, Workload, load_scenario
from fanfold.schemes.catalog import FAN_SCHEMES
from fanfold.study.gap import Progress
from fanfold.study.gap_table import Gap
from fanfold.study.keep import Shelf
from fanfold.study.result import Row, Study, Value
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net

STUDIES = "studies"
MOST_HOPS = 2_000_000
"""Of a run that is made again to follow a packet; of a larger one a small twin is made."""
NAMES_SHOWN = 8
REPLAYED = ("fanfold", "bier")
"""Schemes that a packet is followed in, the first that there is."""


class Kept(NamedTuple):
    """What is known of the kept run of one scheme; bitstring_bits: of its fans, 0 without."""

    row: Row
    endings: list[tuple[int, int]]
    loads: list[Load]
    bitstring_bits: int = 0


class Material(NamedTuple):
    """Of one study or comparison.

    name: of the study or run. point: what the rows of the main table share. rows: of the main
    table. kept: by scheme, of those rows that have a kept run. net, layout: of their fabric.
    scenario: TOML that makes the runs again, empty where none does. gap: None when left out.
    """

    name: str
    study: Study
    point: dict[str, Value]
    rows: tuple[Row, ...]
    kept: dict[str, Kept]
    net: Net
    layout: Layout
    replay: Replay
    scenario: str
    gap: Gap | None


def find(store: Store, start: str) -> tuple[str, bool]:
    """The one study or run whose name starts like this, and whether it is a study.

    Raises:
        ConfigError: none does, or several; with the nearest names.
    """
    studies, runs = _known(store)
    found = [n for n in studies + runs if start and n.startswith(start)]
    if len(set(found)) == 1:
        return found[0], found[0] in studies
    known = sorted({*studies, *runs})
    if found:
        got, near = f"{start} ({len(found)} of that start)", sorted(found)
    else:
        got, near = start, get_close_matches(start, known, NAMES_SHOWN) or known
    more = ", ..." if len(near) > NAMES_SHOWN else ""
    allowed = ", ".join(near[:NAMES_SHOWN]) + more
    where = f"a study or a run of {store.folder}"
    raise ConfigError("RUN", got, f"{where}: {allowed or 'none yet; fanfold study makes one'}")


def newest(store: Store) -> tuple[str, bool]:
    """The study or run that was written last, and whether it is a study.

    Raises:
        ConfigError: there is none.
    """
    files = [*store.folder.glob(f"{STUDIES}/*.json"), *store.folder.glob(f"*/{DIGESTS}")]
    if not files:
        allowed = f"a study or a run of {store.folder}: none yet; fanfold study makes one"
        raise ConfigError("--last", "nothing", allowed)
    last = max(files, key=lambda path: (path.stat().st_mtime_ns, path.parent.name != STUDIES))
    is_study = last.parent.name == STUDIES
    return (last.stem if is_study else last.parent.name), is_study


def gather(
    store: Store,
    name: str,
    *,
    is_study: bool,
    has_gap: bool = True,
    progress: Progress | None = None,
) -> Material:
    """Everything of one study or run.

    Args:
        has_gap: with the gap table, which takes a while where it is not kept yet; progress is
            told of that.

    Raises:
        ConfigError: a file of it that cannot be read.
    """
    study, name = _study(store, name) if is_study else _of_run(store, name)
    point = main_point(study)
    rows = tuple(row for row in study.rows if row.point == point)
    sound = {row.scheme: row for row in rows if row.run_id and _is_kept(store, row.run_id)}
    kept = _kept(store, sound)
    lead = _lead(list(sound.values()), study.metrics)
    scenario = _scenario(store, lead)
    base = scenario or Scenario(_topology(store, lead) or study.topology, seed=study.seed)
    net = build_named_net(base.topology, base.seed)
    net = net._replace(name=named_of(net.name))
    layout = place_nodes(net)
    replay = _replay(store, net, layout, base, gpus_of(study, point), sound)
    text = scenario_text(scenario, [*sound]) if scenario else ""
    gap = kept_gap(store, progress) if has_gap else None
    return Material(name, study, point, rows, kept, net, layout, replay, text, gap)


def main_point(study: Study) -> dict[str, Value]:
    """The point of the main table: the first of those with most GPUs."""
    points = [row.point for row in study.rows] or [{}]
    return max(points, key=lambda point: count_of(point.get("gpus", 0)))


def gpus_of(study: Study, point: Mapping[str, Value]) -> int:
    """GPUs at a point."""
    return count_of(point.get("gpus", 0)) or study.gpus


def _study(store: Store, name: str) -> tuple[Study, str]:
    return Shelf(store.folder).study(name), name


def _of_run(store: Store, run_id: str) -> tuple[Study, str]:
    """The comparison of a run, or the study that it was made for; and its name.

    Raises:
        ConfigError: it is of neither.
    """
    if (store.place(run_id) / SCENARIO).is_file():
        return comparison_of(store, run_id), run_id
    for path in sorted(store.folder.glob(f"{STUDIES}/*.json")):
        study, name = _study(store, path.stem)
        if any(row.run_id == run_id for row in study.rows):
            return study, name
    raise ConfigError("RUN", run_id, "a run of fanfold compare, or of a study that is kept")


def _known(store: Store) -> tuple[list[str], list[str]]:
    studies = sorted(path.stem for path in store.folder.glob(f"{STUDIES}/*.json"))
    runs = sorted(path.parent.name for path in store.folder.glob(f"*/{DIGESTS}"))
    return studies, runs


def _is_kept(store: Store, run_id: str) -> bool:
    return (store.place(run_id) / DIGESTS).is_file()


def _kept(store: Store, rows: dict[str, Row]) -> dict[str, Kept]:
    places = [store.place(row.run_id) for row in rows.values()]
    endings: dict[str, list[tuple[int, int]]] = {}
    loads: dict[str, list[Load]] = {}
    for one in query.endings(places):
        endings.setdefault(one["run_id"], []).append((one["done_ps"], one["n"]))
    for one in query.loads(places):
        load = Load(one["src_node"], one["dst_node"], one["bytes"])
        loads.setdefault(one["run_id"], []).append(load)
    bits = {one["run_id"]: one["bitstring_bits"] for one in query.heads(places)}
    return {
        scheme: Kept(
            row,
            endings.get(row.run_id, []),
            loads.get(row.run_id, []),
            bits.get(row.run_id, 0),
        )
        for scheme, row in rows.items()
    }


def _lead(rows: Sequence[Row], metrics: Sequence[str]) -> Row | None:
    """The row whose scenario stands for all: that of a packet to follow, else the best."""
    for scheme in REPLAYED:
        for row in rows:
            if row.scheme == scheme:
                return row
    best = best_first(rows, metrics[0]) if metrics else []
    return best[0] if best else next(iter(rows), None)


def _scenario(store: Store, lead: Row | None) -> Scenario | None:
    if lead is None or not (store.place(lead.run_id) / SCENARIO).is_file():
        return None
    return load_scenario(store.place(lead.run_id) / SCENARIO)


def _topology(store: Store, lead: Row | None) -> str:
    """Of a run, as its table has it."""
    if lead is None:
        return ""
    (head,) = query.heads([store.place(lead.run_id)])
    return str(head["topology"])


def _replay(
    store: Store,
    net: Net,
    layout: Layout,
    base: Scenario,
    n_gpus: int,
    rows: dict[str, Row],
) -> Replay:
    for scheme in REPLAYED:
        if scheme in rows:
            story = _story(store, rows[scheme].run_id)
            if story is not None:
                caption = f"Packet 0 of {story.what}, in run {story.run_id}."
                return replay_of(net, layout, story, caption)
    story = _twin(base, net, n_gpus)
    caption = f"One packet by itself, {story.what}, on the fabric of this report."
    return replay_of(net, layout, story, caption)


def _story(store: Store, run_id: str) -> Story | None:
    """First packet of the first fan of a run.

    None where no scenario makes it again, it is too large, or has no fan.
    """
    if not (store.place(run_id) / SCENARIO).is_file():
        return None
    (head,) = query.heads([store.place(run_id)])
    is_cheap = head["fidelity"] == "packet" and head["n_hops"] <= MOST_HOPS
    if not is_cheap or not head["n_fans"]:
        return None
    return trace_run(store, run_id, head["n_messages"], 0)


def _twin(base: Scenario, net: Net, n_gpus: int) -> Story:
    """One full packet by fanfold to as many hosts as the study has, and nothing else."""
    ranks = max(2, min(n_gpus or net.n_hosts, net.n_hosts))
    order = base.workload.order if base.workload else "packed"
    settings = msgspec.structs.replace(base.settings, loss_ppb=0, failures=())
    work = Workload("broadcast", settings.payload_bytes, ranks, order)
    scheme = REPLAYED[0]
    assert scheme in FAN_SCHEMES
    scenario = Scenario(
        base.topology,
        schemes=(scheme,),
        fidelity="packet",
        seed=base.seed,
        workload=work,
        settings=settings,
    )
    with tempfile.TemporaryDirectory(prefix="fanfold-") as folder:
        store = Store(Path(folder))
        (run,) = run_scenario(scenario, store)
        return trace_run(store, run.run_id, 0, 0)
