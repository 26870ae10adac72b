"""Pushes over the planes of a lab beside the simulator: shares of planes, and times.

    python bench/planes.py [--rounds 3] [--size 128MiB] [--rate 100Mbps] [--json FILE]

A SuperPoD of 4 GPUs on 4 planes in network namespaces, links of a rate by the fabric file and
shaped to it, so that a port which is full is waited for: all planes, one of them alone, one
plane at half the rate, and the port of the last receiver in one plane cut in the middle. The
simulator is asked first, of the same fabric, with links so long that a round trip takes what
the sender's waits suit: what it says cannot know the run. Nobody tells a push in such a lab of
a cut, so the sender finds out, there as here.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
import numpy as np
from jobs import FANFOLD, run, run_well
from outages import _shape as shape
from plane_bars import Bar, bars
from rich.console import Console
from rich.table import Table

from fanfold.api.failing import fail, heal
from fanfold.live.control_sockets import call
from fanfold.live.lab import Lab
from fanfold.scenario.settings import Failure, Settings
from fanfold.schemes.program import Fan, build_program
from fanfold.sim.fan_arrays import LIVE_RTT_PS
from fanfold.sim.simulate import FANS, Simulation
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.lab_fabric import lab_fabric
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes
from fanfold.units import PS_PER_SECOND, parse_rate, parse_size

TOPOLOGY = "superpod:gpus=4,planes=4,legs=1"
N_PLANES, PAYLOAD = 4, 8064
SLOW, CUT = 1, 2
"""The plane at half the rate, and the one in which a port is cut."""
CUT_S, FIRST_PKTS = 1.0, 100
"""After so long, from so many packets on the link on: it is cut."""
LINKS_THERE_AND_BACK = 5
"""One more than there are: packets take time on them as well."""
FIRST_PREFIX, N_PREFIXES = 128, 100
WAIT_S = 90.0
WITHIN_SHARE, WITHIN_TIME = 0.02, 0.10


class Case(NamedTuple):
    """A row: name, `--planes`, whether one plane is slow, whether a port is cut."""

    name: str
    planes: str = "auto"
    is_slow: bool = False
    is_cut: bool = False


CASES = (
    Case("4 planes"),
    Case("1 plane", planes="0"),
    Case("1 of 4 at half the rate", is_slow=True),
    Case("1 of 4 cut in the middle", is_cut=True),
)


class Told(NamedTuple):
    """Of one run: seconds, bytes with what was sent again by plane, when a port was cut."""

    seconds: float
    by_plane: tuple[int, ...]
    cut_s: float = 0.0

    @property
    def parts(self) -> list[float]:
        return [n / sum(self.by_plane) for n in self.by_plane]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--size", type=lambda text: parse_size(text, "--size"), default="128MiB"
    )
    parser.add_argument(
        "--rate", type=lambda text: parse_rate(text, "--rate"), default="100Mbps"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.exit(3, "needs root for network namespaces\n")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the lab is undone
    fabrics = {is_slow: build_fabric(args.rate, is_slow=is_slow) for is_slow in (False, True)}
    said = {
        case.name: simulated(fabrics[case.is_slow], case, args.size, args.rate)
        for case in CASES
    }
    live: dict[str, list[Told]] = {case.name: [] for case in CASES}
    for is_slow, fabric in fabrics.items():
        with _lab(fabric) as lab:
            for case in (case for case in CASES if case.is_slow == is_slow):
                for _ in range(args.rounds):
                    live[case.name].append(_live(lab, fabric, case, args.size))
                    print(case.name, live[case.name][-1], file=sys.stderr, flush=True)
    _show(said, live, args.size)
    found = bars_of(live)
    for bar in found:
        holds = "holds" if bar.holds else "MISSED"
        print(f"{bar.what}: {bar.found:.2f}x, {bar.asked}x asked: {holds}")
    if args.json:
        plain = {"simulated": said, "live": live, "bytes": args.size, "bars": found}
        args.json.write_text(json.dumps(plain, indent=2))
    is_near = all(_holds(said[case.name], live[case.name]) for case in CASES)
    return 0 if is_near and all(bar.holds for bar in found) else 4


def bars_of(live: Mapping[str, Sequence[Told]]) -> list[Bar]:
    """Bars, from the medians of all runs."""
    every, one, slow, cut = (_middle(live[case.name]) for case in CASES)
    return bars(one.seconds, every.seconds, slow.seconds, (cut.seconds, cut.cut_s))


def build_fabric(rate_bps: int, *, is_slow: bool) -> Fabric:
    """The pod; in one plane links carry half where it is slow."""
    prefix = FIRST_PREFIX + os.getpid() % N_PREFIXES  # of addresses: labs may stand beside it
    net = build_named_net(f"{TOPOLOGY},rate={rate_bps}bps")
    fabric = lab_fabric(net, name="planes", prefix=prefix).fabric
    links = tuple(
        msgspec.structs.replace(link, rate=f"{rate_bps // 2}bps", delay="")
        if is_slow and link.plane == SLOW
        else msgspec.structs.replace(link, delay="")
        for link in fabric.links
    )
    return msgspec.structs.replace(fabric, links=links)


def simulated(fabric: Fabric, case: Case, n_bytes: int, rate_bps: int) -> Told:
    """The same push of the same fabric in the simulator."""
    net = fabric_net(fabric)
    net = net._replace(prop_ps=np.full_like(net.prop_ps, LIVE_RTT_PS // LINKS_THERE_AND_BACK))
    names = [net.node_name(n) for n in range(net.n_hosts)]
    failures: tuple[Failure, ...] = ()
    if case.is_cut:
        at_ps = int((CUT_S + first_s(rate_bps)) * PS_PER_SECOND)
        failures = (Failure(at_ps, fail=f"port {names[-1]}-plane{CUT}"),)
    none = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
    fan = Fan(0, tuple(range(1, net.n_hosts)), n_bytes)
    settings = Settings(
        payload_bytes=PAYLOAD,
        n_ecmp=fabric.n_ecmp,
        planes=case.planes,
        failures=failures,
        weights_ps=2**50,
    )
    program = build_program(*none, fans=(fan,), folds=True)
    sim = Simulation(net, build_routes(net), program, settings, seed=1, whole=FANS)
    while sim.step():
        pass
    out = sim.outcome()
    assert not out.stuck, out.stuck
    sent = out.link_bytes[:, :2].sum(axis=1)
    from_source = [sent[(net.src == 0) & (net.plane == p)].sum() for p in range(N_PLANES)]
    return Told(int(out.host_ps[1:].max()) / PS_PER_SECOND, tuple(map(int, from_source)))


def first_s(rate_bps: int) -> float:
    """From the first byte on a link to the last of the packets that are waited for."""
    return FIRST_PKTS * 8 * PAYLOAD / rate_bps


@contextmanager
def _lab(fabric: Fabric) -> Iterator[Lab]:
    lab = Lab(f"planes{os.getpid()}")
    folder = TemporaryDirectory()
    config = Path(folder.name) / "fabric.toml"
    try:
        save_fabric(fabric, config)
        words = ["lab", "up", "--name", lab.name, "--config", str(config), "--json"]
        run_well([*FANFOLD, *words, "--namespaces"], 180)
        for link in fabric.links:
            shape(lab, link.a, link.b, link.rate)
            shape(lab, link.b, link.a, link.rate)
        yield lab
    finally:
        run([*FANFOLD, "lab", "down", "--name", lab.name, "--purge", "--json"], 30)
        folder.cleanup()


def _live(lab: Lab, fabric: Fabric, case: Case, n_bytes: int) -> Told:
    """One push; where a port is cut, in its middle."""
    heal(lab)
    ends = time.monotonic() + WAIT_S
    while not _is_well(lab):
        assert time.monotonic() < ends, "the lab did not come to rest"
        time.sleep(0.05)
    path = lab.folder / "pushed.bin"
    for name in lab.nodes():  # an old one costs time at the start
        (lab.hosts(name) / path.name).unlink(missing_ok=True)
    path.write_bytes(os.urandom(n_bytes))
    words = ["push", str(path), "--lab", lab.name, "--planes", case.planes, "--json"]
    last = [node.name for node in fabric.nodes if node.role == "host"][-1]
    before = _received(lab, last, f"leaf{CUT}")
    push = subprocess.Popen([*FANFOLD, *words], stdout=subprocess.PIPE, text=True)
    try:
        cut_s = 0.0
        if case.is_cut:
            ends = time.monotonic() + WAIT_S
            while _received(lab, last, f"leaf{CUT}") - before < FIRST_PKTS:
                assert time.monotonic() < ends, "no data came"
                time.sleep(0.01)
            began = time.monotonic() - first_s(parse_rate(fabric.links[0].rate, "rate"))
            time.sleep(CUT_S)
            fail(lab, "link", f"{last}-leaf{CUT}")
            cut_s = time.monotonic() - began
        out, _ = push.communicate(timeout=WAIT_S)
    finally:
        push.kill()
        heal(lab)
    result = json.loads(out)
    assert all(row["state"] == "verified" for row in result["receivers"]), out
    by_plane = dict.fromkeys(range(N_PLANES), 0)
    for row in result["planes"] or ():
        by_plane[row["plane"]] += row["bytes"] + row["repair_bytes"]
    return Told(result["data_seconds"], tuple(by_plane.values()), cut_s)


def _is_well(lab: Lab) -> bool:
    """All neighbours hear each other."""
    told = [call(lab.control_socket(node), {"do": "status"}, 5) for node in lab.nodes()]
    return all(
        row["state"] == "up" for one in told for row in one.get("neighbours", {}).values()
    )


def _received(lab: Lab, node: str, of: str) -> int:
    told: dict[str, Any] = call(lab.control_socket(node), {"do": "status"}, 5)
    rows = told["links"][of]["rx"]
    return sum(rows.get(kind, [0])[0] for kind in ("data", "repair"))


def _middle(runs: Sequence[Told]) -> Told:
    """Medians of each number."""
    columns = zip(*(told.by_plane for told in runs), strict=True)
    by_plane = tuple(round(statistics.median(column)) for column in columns)
    seconds, cut_s = (
        statistics.median(each) for each in zip(*(told[::2] for told in runs), strict=True)
    )
    return Told(seconds, by_plane, cut_s)


def _off(said: Told, runs: Sequence[Told]) -> tuple[float, float]:
    """Largest difference of a plane's part, and of the time as a part of what was measured."""
    found = _middle(runs)
    part = max(abs(a - b) for a, b in zip(said.parts, found.parts, strict=True))
    return part, said.seconds / found.seconds - 1


def _holds(said: Told, runs: Sequence[Told]) -> bool:
    part, seconds = _off(said, runs)
    return part <= WITHIN_SHARE and abs(seconds) <= WITHIN_TIME


def _show(said: dict[str, Told], live: dict[str, list[Told]], n_bytes: int) -> None:
    table = Table(
        *("push", "predicted s", "live s, median", "off", "each", "Mbit/s"),
        *("parts of planes, predicted %", "live %", "off, points"),
    )
    for name, told in said.items():
        found = _middle(live[name])
        part, seconds = _off(told, live[name])
        table.add_row(
            name,
            *(f"{told.seconds:.2f}", f"{found.seconds:.2f}", f"{100 * seconds:+.1f} %"),
            " ".join(f"{one.seconds:.2f}" for one in live[name]),
            f"{8 * n_bytes / found.seconds / 1e6:.0f}",
            " ".join(f"{100 * n:.1f}" for n in told.parts),
            " ".join(f"{100 * n:.1f}" for n in found.parts),
            f"{100 * part:.2f}",
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    sys.exit(main())
