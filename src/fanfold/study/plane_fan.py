"""One GPU to all others over planes by weight, half a cable at one of them; beside one plane.

Bytes are those that links counted, by packets; what they should be follows from path bandwidth
alone (topo/fan_weights.py for a fan, topo/path_weights.py for messages).
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.results.outcome import Outcome
from fanfold.run import Stage, build_job, build_stage, simulate_job
from fanfold.scenario.failures import net_at_start
from fanfold.scenario.scenario import Scenario, Workload, check_scenario
from fanfold.scenario.settings import Failure, Settings
from fanfold.study.plane_steps import NEVER_ENDS, PPM, TOPOLOGY
from fanfold.topo.fan_weights import fan_weights
from fanfold.topo.net import Net
from fanfold.topo.path_weights import shares
from fanfold.topo.plane_paths import AUTO, PlanePaths, planes_asked
from fanfold.topo.routes import build_routes

N_BYTES = 64 << 20
SOURCE = 0
Progress = Callable[[str], None]
Bytes = tuple[int, ...]


class Way(NamedTuple):
    """A row: name, scheme, and settings other than the usual ones."""

    name: str
    scheme: str
    changes: dict[str, str]


WAYS = (
    Way("fanfold, planes by weight", "fanfold", {"planes": AUTO}),
    Way("BIER, planes by weight", "bier", {"planes": AUTO}),
    Way("BIER, plane 0", "bier", {"planes": "0"}),
    Way("PIM-SM, one link of plane 0", "pim-sm", {"tree_start": "standing"}),
    Way("unicast, per packet by weight", "unicast", {"planes": AUTO, "routing": "packets"}),
)


class FanRow(msgspec.Struct, frozen=True):
    """One run; bytes with headers and what is sent again, by plane.

    last_ps: until the last receiver has all. out_bytes: from the source; hurt_bytes: to the GPU
    with half a cable, other_bytes: to the last GPU. out_ppm, hurt_ppm: what of these each plane
    should have; empty where weights are not asked. off_ppm: the largest difference, of a part.
    links_bytes: on all links.
    """

    name: str
    last_ps: int
    out_bytes: Bytes
    hurt_bytes: Bytes
    other_bytes: Bytes
    out_ppm: Bytes
    hurt_ppm: Bytes
    off_ppm: int
    links_bytes: int


class FanTable(msgspec.Struct, frozen=True):
    """All rows, and what makes them again."""

    topology: str
    n_bytes: int
    hurt: str
    seed: int
    rows: tuple[FanRow, ...]
    command: str


class Asked(NamedTuple):
    """What is asked for. host, plane: where half a cable is lost; empty: nothing is."""

    topology: str = TOPOLOGY
    n_bytes: int = N_BYTES
    host: str = "h3"
    plane: int = 1
    seed: int = 1


def build_fan_table(asked: Asked, progress: Progress | None = None) -> FanTable:
    """Run every way.

    Raises:
        ConfigError: a topology without planes, or no such half of a cable.
    """
    hurt = f"{asked.host}-plane{asked.plane}"
    failures = (Failure(0, fail=f"half-cable {hurt}"),)
    rows = []
    for way in WAYS:
        (progress or (lambda _: None))(way.name)
        settings = msgspec.structs.replace(Settings(), failures=failures, **way.changes)
        scenario = Scenario(
            asked.topology,
            schemes=(way.scheme,),
            fidelity="packet",
            seed=asked.seed,
            workload=Workload("broadcast", asked.n_bytes),
            settings=settings,
        )
        check_scenario(scenario)
        stage = build_stage(scenario)
        job = build_job(scenario, way.scheme, stage)
        rows.append(_row(asked, way, stage, simulate_job(scenario, stage, job), settings))
    command = f"fanfold planes --fan --topology {asked.topology} --size {asked.n_bytes}"
    command += f" --fail {hurt} --seed {asked.seed}"
    return FanTable(asked.topology, asked.n_bytes, hurt, asked.seed, tuple(rows), command)


def _row(asked: Asked, way: Way, stage: Stage, out: Outcome, settings: Settings) -> FanRow:
    net = stage.net
    names = [net.node_name(n) for n in range(net.n_hosts)]
    hurt, last = names.index(asked.host), net.n_hosts - 1
    if hurt == SOURCE:
        raise ConfigError("fail", asked.host, f"a receiver, not {names[SOURCE]}")
    carried = out.link_bytes[:, :2].sum(axis=1)
    leaves, at_hurt, at_last = (
        _by_plane(net, carried * ends)
        for ends in (net.src == SOURCE, net.dst == hurt, net.dst == last)
    )
    should: tuple[Bytes, Bytes] = (), ()
    if way.changes.get("planes") == AUTO:
        is_fan = way.scheme != "unicast"
        should = should_be(net_at_start(net, settings), hurt, is_fan=is_fan)
    pairs = zip((leaves, at_hurt), should, strict=True)
    off = max((_off_ppm(found, right) for found, right in pairs if right), default=0)
    is_done = out.host_ps[1:].min() >= 0 and not out.stuck
    last_ps = int(out.host_ps[1:].max()) if is_done else NEVER_ENDS
    every = int(out.link_bytes.sum())
    return FanRow(way.name, last_ps, leaves, at_hurt, at_last, *should, off, every)


def _by_plane(net: Net, n_bytes: NDArray[np.int64]) -> Bytes:
    n_planes = int(net.plane.max()) + 1
    return tuple(int(n_bytes[net.plane == plane].sum()) for plane in range(n_planes))


def _off_ppm(found: Bytes, right: Bytes) -> int:
    """Largest difference of a plane's part of bytes from what it should be."""
    whole = max(sum(found), 1)
    return max(abs(n * PPM // whole - want) for n, want in zip(found, right, strict=True))


def should_be(net: Net, hurt: int, *, is_fan: bool) -> tuple[Bytes, Bytes]:
    """Parts of planes at the source, and at one receiver, in ppm."""
    planes = planes_asked(AUTO, net) or ()
    paths = PlanePaths(net, build_routes(net))
    carried = [paths.carried(SOURCE, host, planes) for host in range(net.n_hosts)]
    receivers = [each for host, each in enumerate(carried) if host != SOURCE]
    if is_fan:
        weights = fan_weights(receivers, planes) or {}
        parts = [Fraction(weights.get(p, 0), sum(weights.values()) or 1) for p in planes]
        return _ppm(parts), _ppm(parts)
    each = [_shares_of(one, planes) for one in receivers]
    means = [sum(row[k] for row in each) / len(each) for k in range(len(planes))]
    return _ppm(means), _ppm(_shares_of(carried[hurt], planes))


def _shares_of(carried: dict[int, Fraction], planes: Sequence[int]) -> list[Fraction]:
    parts = dict(zip(carried, shares(list(carried.values())), strict=True))
    return [parts.get(plane, Fraction(0)) for plane in planes]


def _ppm(parts: Sequence[Fraction | float]) -> Bytes:
    return tuple(np.rint([float(part) * PPM for part in parts]).astype(int).tolist())
