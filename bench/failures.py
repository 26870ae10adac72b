"""Failures of a lab beside those of the simulator: detection and gap, with the same timers.

    python bench/failures.py [--rounds 9] [--json FILE]

A lab of 4 leaves, 2 spines and 8 receivers, HELLOs as `lab up` has them. In mid-push the link
of the spine that carries the data fails at the source's leaf or at the last receiver's leaf,
or that spine ends, or the last receiver's leaf, or the last receiver stands still. Detection:
until the first neighbour has noticed, as `lab status` tells. Gap: until the last receiver has
DATA again; behind a leaf that is gone nobody has. The simulator runs the lab's own fabric,
with links so long that a round trip takes what the sender's waits suit, and with the lag that
the lab's nodes told of themselves before the failure. When a neighbour notices hangs on how
long ago it had a HELLO: the simulator fails at PHASES times of one HELLO interval, and the
figure of both is the median.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from jobs import FANFOLD, run, run_well
from rich.console import Console
from rich.table import Table

from fanfold.api.failing import fail, heal
from fanfold.live.control_sockets import call
from fanfold.live.lab import Lab
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.fan_arrays import LIVE_RTT_PS
from fanfold.sim.simulate import FANS, Simulation
from fanfold.study.failure_table import ways_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.net import Net
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_MS, PS_PER_SECOND

SHAPE = ["--leaves", "4", "--spines", "2", "--hosts", "8"]
RATE_BPS, N_BYTES = 40_000_000, 12_000_000
SOURCE = "h0"
CASES = ("near link", "far link", "spine", "leaf", "pause")
PHASES = 8
PAUSE_S = 1
LINKS_THERE_AND_BACK = 8
AFTER_S = 0.7
"""Into the data."""
SAMPLE_S = 0.002
WAIT_S = 60.0


class Told(NamedTuple):
    """Of one failure, in ms; NaN: nobody noticed. lag_ms: of those that watch, as they said."""

    detect_ms: float
    gap_ms: float
    lag_ms: float = 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the lab is undone
    with lab_of("failures", SHAPE) as lab:
        fabric = lab.fabric()
        live = {case: [_live(lab, fabric, case) for _ in range(args.rounds)] for case in CASES}
    predicted = {
        case: _simulated(
            fabric, case, round(statistics.median(row.lag_ms for row in live[case]))
        )
        for case in CASES
    }
    _show(live, predicted)
    if args.json:
        args.json.write_text(json.dumps({"live": live, "simulated": predicted}, indent=2))
    return 0


@contextmanager
def lab_of(what: str, shape: list[str]) -> Iterator[Lab]:
    """A lab for a measurement, gone afterwards."""
    lab = Lab(f"{what}{os.getpid()}")
    try:
        run_well([*FANFOLD, "lab", "up", "--name", lab.name, *shape, "--json"], 300)
        yield lab
    finally:
        run([*FANFOLD, "lab", "down", "--name", lab.name, "--purge", "--json"], 30)


def words_of(case: str, spine: str, leaves: tuple[str, str], last: str) -> str:
    """What fails; leaves: of the source and of the last receiver."""
    return {
        "near link": f"link {leaves[0]}-{spine}",
        "far link": f"link {spine}-{leaves[1]}",
        "spine": f"node {spine}",
        "leaf": f"node {leaves[1]}",
        "pause": f"pause {last} {PAUSE_S}s",
    }[case]


def _ends(fabric: Fabric) -> tuple[str, str, str, str]:
    """Source, its leaf, the last receiver, its leaf."""
    near = fabric.neighbours
    hosts = sorted(node.name for node in fabric.nodes if node.role == "host")
    last = [name for name in hosts if near[name][0] != near[SOURCE][0]][-1]
    return SOURCE, near[SOURCE][0], last, near[last][0]


def _live(lab: Lab, fabric: Fabric, case: str) -> Told:
    """One push that meets one failure."""
    heal(lab)
    _wait(lambda: _is_well(lab))
    _, leaf, last, far = _ends(fabric)
    path = lab.folder / "pushed.bin"
    path.write_bytes(os.urandom(N_BYTES))
    spines = [to for to in fabric.neighbours[leaf] if to in fabric.neighbours[far]]
    before = {spine: _sent(lab, leaf, spine) for spine in spines}
    command = [*FANFOLD, "push", str(path), "--lab", lab.name, "--json"]
    command += ["--rate", f"{RATE_BPS}bps"]
    push = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(lambda: sum(_sent(lab, leaf, s) - before[s] for s in spines) > 100)
        time.sleep(AFTER_S)
        spine = max(spines, key=lambda name: _sent(lab, leaf, name) - before[name])
        words = words_of(case, spine, (leaf, far), last)
        lag_ms = _lag_ms(lab, spine)
        before, at = _received(lab, last, far), time.monotonic()
        fail(lab, *words.split())
        gap_ms = float("nan") if case == "leaf" else _gap_ms(lab, last, far, at, before)
        pairs = _pairs(fabric, case, (leaf, spine, far))
        if case == "leaf":
            _wait(lambda: any(_noticed_ms(lab, a, b, at) > 0 for a, b in pairs))
        seen = [_noticed_ms(lab, a, b, at) for a, b in pairs]
        return Told(min((ms for ms in seen if ms > 0), default=float("nan")), gap_ms, lag_ms)
    finally:
        heal(lab)
        push.wait(WAIT_S)


def _pairs(fabric: Fabric, case: str, ends: tuple[str, str, str]) -> list[tuple[str, str]]:
    """Who watches whom of what failed; ends: the source's leaf, the spine, the last leaf."""
    leaf, spine, far = ends
    if case == "pause":
        return []
    if case in ("spine", "leaf"):
        gone = spine if case == "spine" else far
        return [(name, gone) for name in fabric.neighbours[gone]]
    end = leaf if case == "near link" else far
    return [(end, spine), (spine, end)]


def _lag_ms(lab: Lab, node: str) -> float:
    """How late a node says that its timers run."""
    return float(_status(lab, node).get("detection", {}).get("lag_ms", 0))


def _gap_ms(lab: Lab, last: str, far: str, at: float, before: int) -> float:
    """Until the last receiver has DATA again after a silence of 40 ms, as its node counts."""
    moved = at
    while time.monotonic() < at + 10:
        count, now = _received(lab, last, far), time.monotonic()
        if count > before:
            if now - moved > 0.04 and now - at > 0.04:
                return 1000 * (now - at)
            before, moved = count, now
        time.sleep(SAMPLE_S)
    return float("nan")


def _noticed_ms(lab: Lab, node: str, to: str, at: float) -> float:
    """When a node took a neighbour for lost, in ms from a time on."""
    row = _status(lab, node).get("neighbours", {}).get(to, {})
    now = time.monotonic()
    if row.get("state") != "down":
        return -1.0
    return 1000 * (now - row["since_s"] - at)


def _status(lab: Lab, node: str) -> dict[str, Any]:
    return call(lab.control_socket(node), {"do": "status"}, 0.5)


def _sent(lab: Lab, node: str, to: str) -> int:
    told = _status(lab, node)["links"][to]["tx"]
    return sum(told.get(kind, [0])[0] for kind in ("data", "repair"))


def _received(lab: Lab, node: str, of: str) -> int:
    with suppress(KeyError):
        told = _status(lab, node)["links"][of]["rx"]
        return sum(told.get(kind, [0])[0] for kind in ("data", "repair"))
    return -1


def _is_well(lab: Lab) -> bool:
    told = [_status(lab, node) for node in lab.nodes()]
    states = [row["state"] for one in told for row in one.get("neighbours", {}).values()]
    return bool(states) and all(state == "up" for state in states)


def _wait(is_so: Any) -> None:
    ends = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > ends:
            raise SystemExit("the lab did not come to rest")
        time.sleep(0.02)


def _simulated(fabric: Fabric, case: str, lag_ms: int) -> Told:
    """The same failure of the same fabric in the simulator, with the lag that nodes told."""
    net = fabric_net(fabric)
    way_ps = LIVE_RTT_PS // LINKS_THERE_AND_BACK
    net = net._replace(prop_ps=np.full_like(net.prop_ps, way_ps), bps=_rates(net))
    names = [net.node_name(n) for n in range(net.n_nodes)]
    source, leaf, last, far = _ends(fabric)
    receivers = tuple(n for n in range(net.n_hosts) if names[n] != source)
    fan = Fan(names.index(source), receivers, N_BYTES)
    none = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
    program = build_program(*none, fans=(fan,), folds=True)
    settings = Settings(payload_bytes=8064, n_ecmp=fabric.n_ecmp, lag_ms=lag_ms)
    way = ways_of(_played(net, program, settings))[names.index(last)]
    spine = names[int(net.dst[way[1]])]
    words = words_of(case, spine, (leaf, far), last)
    sent_ps = int(AFTER_S * PS_PER_SECOND) + 100 * 8 * 8064 * PS_PER_SECOND // RATE_BPS
    told = []
    for k in range(PHASES):
        at_ps = sent_ps + k * settings.hello_ps // PHASES
        failures = (Failure(at_ps, fail=words),)
        sim = _played(net, program, msgspec.structs.replace(settings, failures=failures))
        told.append(_told(sim, at_ps, names.index(last), lag_ms))
    return Told(*(statistics.median(row[k] for row in told) for k in range(3)))


def _told(sim: Simulation, at_ps: int, last: int, lag_ms: int) -> Told:
    assert sim.failing is not None
    noticed = [at for at, _, _ in sim.failing.lost]
    back_ps = int(sim.world.nodes["back_ps"][last])
    return Told(
        (min(noticed) - at_ps) / PS_PER_MS if noticed else float("nan"),
        (back_ps - at_ps) / PS_PER_MS if back_ps > 0 else float("nan"),
        lag_ms,
    )


def _rates(net: Net) -> Any:
    """The source sends at the push's rate; other links are no limit."""
    bps = np.full_like(net.bps, 10**9)
    own = next(n for n in range(net.n_hosts) if net.node_name(n) == SOURCE)
    bps[net.src == own] = RATE_BPS
    return bps


def _played(net: Net, program: Any, settings: Settings) -> Simulation:
    sim = Simulation(net, build_routes(net), program, settings, seed=1, whole=FANS)
    while sim.step():
        pass
    return sim


def _show(live: dict[str, list[Told]], predicted: dict[str, Told]) -> None:
    table = Table(
        "failure", "", "lag told, ms", "simulated ms", "live ms, median", "live ms", "off"
    )
    for case in CASES:
        for k, what in enumerate(Told._fields[:2]):
            every = [row[k] for row in live[case] if not math.isnan(row[k])]
            said = predicted[case][k]
            if not every or math.isnan(said):
                continue
            middle = statistics.median(every)
            runs = " ".join(f"{ms:.0f}" for ms in every)
            off = f"{100 * (said - middle) / middle:+.0f} %"
            name = what.removesuffix("_ms")
            lag = f"{predicted[case].lag_ms:.0f}"
            table.add_row(case, name, lag, f"{said:.0f}", f"{middle:.0f}", runs, off)
    Console(width=None if sys.stdout.isatty() else 130).print(table)


if __name__ == "__main__":
    sys.exit(main())
