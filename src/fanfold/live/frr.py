"""BGP speakers of a lab: FRR's zebra and bgpd in each namespace, configured from its plan.

A node's daemons have their sockets, configuration and log in ``/run/frr/ff:LAB:NODE``, so that
``vtysh -N ff:LAB:NODE`` talks to them. A host announces its loopback on each leg with what the
leg carries; a leaf passes on what its legs to that host carry together. Hosts tell all routes
of their peers by BMP to the station that makes kernel routes of them (``live/plane_agent.py``).
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fanfold.errors import EnvironmentLack
from fanfold.live.spaces import SPEAKERS, space_of, speaker_home
from fanfold.topo.plane_plan import PlanePlan, Speaker

DAEMONS = Path("/usr/lib/frr")
MODULES = "*/frr/modules/bgpd_bmp.so"
OWNER = "frr"
BMP_PORT = 1790
KEEPALIVE_S, HOLD_S = 1, 3
COALESCE_MS = 50
"""How long a speaker waits for more to say before it tells a session that is new."""
START_S = 20.0
MAX_PATHS = 64
ANSWER_S = 5.0


def require_frr() -> None:
    """Refuse a machine without FRR.

    Raises:
        EnvironmentLack: in one line, with what to install.
    """
    lacking = [
        str(DAEMONS / name) for name in ("zebra", "bgpd") if not (DAEMONS / name).exists()
    ]
    if not lacking and not shutil.which("vtysh"):
        lacking = ["vtysh"]
    if not lacking and not any(Path("/usr/lib").glob(MODULES)):
        lacking = ["bgpd_bmp.so"]
    if lacking:
        raise EnvironmentLack(f"--bgp: no {lacking[0]} here; install Debian's package frr")


def start_speakers(lab: str, plan: PlanePlan) -> None:
    """Start zebra and bgpd of every node; returns when all are daemons.

    Raises:
        EnvironmentLack: one does not start.
    """
    SPEAKERS.mkdir(exist_ok=True)
    shutil.chown(SPEAKERS, OWNER, OWNER)
    configs = dict(_configs(plan))
    for name, files in configs.items():
        home = speaker_home(lab, name)
        home.mkdir(exist_ok=True)
        for file, text in files.items():
            (home / file).write_text(text, encoding="utf-8")
        shutil.chown(home, OWNER, OWNER)
    for daemon in ("zebra", "bgpd"):
        started = [
            _start(lab, name, daemon, is_host=n < len(plan.hosts))
            for n, name in enumerate(configs)
        ]
        for process in started:
            _, said = process.communicate(timeout=START_S)
            if process.returncode:
                words = " ".join(said.split())[:200]
                raise EnvironmentLack(f"--bgp: {daemon}: {words}; see {SPEAKERS}")


def _start(lab: str, name: str, daemon: str, *, is_host: bool) -> "subprocess.Popen[str]":
    home = speaker_home(lab, name)
    words = ["ip", "netns", "exec", space_of(lab, name), str(DAEMONS / daemon), "-d"]
    words += ["-N", home.name, "-f", str(home / f"{daemon}.conf"), "-i", str(home / daemon)]
    words += ["-P", "0", "--log", f"file:{home}/log"]
    words += ["-M", "bmp"] if daemon == "bgpd" and is_host else []
    return subprocess.Popen(  # noqa: S603 - no shell
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ask_vtysh(lab: str, node: str, command: str) -> str:
    """What a node's speaker answers; empty where it does not."""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["vtysh", "-N", speaker_home(lab, node).name, "-c", command],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _configs(plan: PlanePlan) -> Iterator[tuple[str, dict[str, str]]]:
    """Files of each node, hosts first."""
    asn = {each.name: each.asn for each in (*plan.hosts, *plan.leaves)}
    for host in plan.hosts:
        legs = plan.at_host(host.name)
        peers = [(leg.leaf_address, asn[leg.leaf], f"OUT{leg.mbps}") for leg in legs]
        bgpd = [*_bgp(host, peers), *_station(), "exit"]
        for mbps in sorted({leg.mbps for leg in legs}):
            bgpd += [f"route-map OUT{mbps} permit 10", " match ip address prefix-list OWN"]
            bgpd += [f" set extcommunity bandwidth {mbps}", "exit"]
        bgpd.append(f"ip prefix-list OWN permit {host.address}/32")
        yield host.name, {"zebra.conf": _zebra(host), "bgpd.conf": _text(host, bgpd)}
    for leaf in plan.leaves:
        peers = [(leg.host_address, asn[leg.host], "") for leg in plan.at_leaf(leaf.name)]
        bgpd = [*_bgp(leaf, peers), *(f" neighbor {peer[0]} passive" for peer in peers), "exit"]
        yield leaf.name, {"zebra.conf": _zebra(leaf), "bgpd.conf": _text(leaf, bgpd)}


def _text(speaker: Speaker, lines: list[str]) -> str:
    return "\n".join(["frr defaults datacenter", f"hostname {speaker.name}", *lines, ""])


def _zebra(speaker: Speaker) -> str:
    """What others reach is sent to from the loopback address, which all know.

    Without nexthop objects of its own: zebra would take over those of others that are alike.
    """
    lines = ["no zebra nexthop kernel enable", "route-map OWN permit 10"]
    lines += [f" set src {speaker.address}", "exit", "ip protocol bgp route-map OWN"]
    return _text(speaker, lines)


def _bgp(speaker: Speaker, peers: list[tuple[str, int, str]]) -> list[str]:
    """A speaker's sessions: peer, its AS, the route-map out or none."""
    lines = [
        f"router bgp {speaker.asn}",
        f" bgp router-id {speaker.address}",
        " no bgp ebgp-requires-policy",
        " no bgp network import-check",
        " bgp bestpath as-path multipath-relax",
        f" timers bgp {KEEPALIVE_S} {HOLD_S}",
        f" coalesce-time {COALESCE_MS}",
    ]
    for peer, asn, _ in peers:
        lines += [f" neighbor {peer} remote-as {asn}", f" neighbor {peer} timers connect 1"]
    lines += [" address-family ipv4 unicast", f"  network {speaker.address}/32"]
    lines += [f"  maximum-paths {MAX_PATHS}"]
    lines += [f"  neighbor {peer} route-map {out} out" for peer, _, out in peers if out]
    return [*lines, " exit-address-family"]


def _station() -> list[str]:
    return [
        " bmp targets fanfold",
        f"  bmp connect 127.0.0.1 port {BMP_PORT} min-retry 100 max-retry 500",
        "  bmp monitor ipv4 unicast post-policy",
        " exit",
    ]
