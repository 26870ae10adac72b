"""Any bytes at any port: nodes live, memory is bounded, reasons are counted, pushes work.

FANFOLD_FUZZ_SECONDS makes each blast that long instead of a fixed number of datagrams.
"""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from random import Random

import hostile_run
import pytest
from blaster import Blaster, send, send_train
from hostile_packets import HostilePackets
from live_site import LiveLab, Site, finish, is_running, random_bytes, states, wait_for

from fanfold.core.effects import DropReason
from fanfold.live.control_sockets import call
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

MB = 1_000_000
PORT = 8138
N_DATAGRAMS = 20_000
N_FEW = 6_000
SLOW_RATE = "2Mbps"
"""A push that lasts as long as its blast."""
FUZZ_S = float(os.environ.get("FANFOLD_FUZZ_SECONDS", "0"))
TRAIN_EVERY = 50
GROWTH_KB = 80 * 1024
"""Blocks being collected, and an interpreter's own pages, touched for the first time."""
STRANGER = "127.0.0.1"
N_FLOWS = 40
N_HALF_OPEN = 100
MAX_STRANGE = 32 * 60
PATIENCE_S = 10.0
ControlSocket = str | tuple[str, int]

GARBAGE = (
    b"",
    b"\n",
    b"\0" * 70_000,
    b"\xff\xfe\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"{" * 60_000 + b"\n",
    b"[" * 60_000 + b"\n",
    b'"' + b"x" * 100_000,
    b"null\n",
    b"{}\n",
    b'{"do": null}\n',
    b'{"do": ["status"]}\n',
    b'{"do": {"status": 1}}\n',
    b'{"do": "exec"}\n',
    b'{"do": "status", "do": "x"}\n',
    b'{"do": "impair"}\n',
    b'{"do": "impair", "links": 5, "seed": 1}\n',
    b'{"do": "impair", "links": {"leaf1": 5}, "seed": 1}\n',
    b'{"do": "impair", "links": {"leaf1": {"drop_ppb": "all"}}, "seed": 1}\n',
    b'{"do": "impair", "links": {"leaf1": {"drop_ppb": 1' + b"0" * 40 + b'}}, "seed": 1}\n',
    b'{"do": "impair", "links": {"spine1": {"delay_ps": -1e400}}, "seed": 1}\n',
    b'{"do": "impair", "links": {"h1": {"rate_bps": NaN}}, "seed": 1}\n',
    b'{"do": "impair", "links": {}, "seed": 1e999}\n',
    b'{"do": "impair", "links": {}, "seed": "one"}\n',
    b'{"do": "capture", "path": 5}\n',
    b'{"do": "capture", "path": "/no/such/folder/x"}\n',
    b'{"do": "capture", "path": "a\\u0000b"}\n',
    b'{"do": "restart"}\n',
    b'{"do": "restart", "node": ["h1"]}\n',
    b'{"do": "restart", "node": "nobody"}\n',
    b'{"do": "status"',
)


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-hostile", "--leaves", 2, "--spines", 1, "--hosts", 4)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


def dirty_kb(pid: int) -> int:
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (row,) = (row for row in rows if row.startswith("Private_Dirty:"))
    return int(row.split()[1])


def bound(stack: ExitStack, address: str, port: int = 0) -> socket.socket:
    sock = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
    sock.bind((address, port))
    sock.setblocking(False)
    return sock


def blast(
    blaster: Blaster,
    socks: list[socket.socket],
    targets: list[tuple[str, int]],
    n: int,
    poll: Callable[[], int | None] = lambda: None,
) -> None:
    """A number of datagrams, or a number of seconds, or until ``poll`` tells of an end."""
    until = time.monotonic() + FUZZ_S
    sent = 0
    for datagram in blaster.datagrams():
        sock = blaster.random.choice(socks)
        where = blaster.random.choice(targets)
        if blaster.random.randrange(TRAIN_EVERY) == 0:
            sent += send_train(sock, blaster.train(), where)
        sent += send(sock, datagram, where)
        if FUZZ_S and sent % 500 == 0:
            time.sleep(0.01)
        if poll() is not None or (sent >= n and time.monotonic() >= until):
            return


def drops(lab: LiveLab, node: str) -> dict[str, int]:
    counted: dict[str, int] = lab.status(node)["drops"]
    return counted


def no_trace(lab: LiveLab) -> bool:
    return "Traceback" not in (lab.folder / "lab.log").read_text(errors="replace")


def push_works(lab: LiveLab, tmp_path: Path, seed: int) -> None:
    path = tmp_path / f"after{seed}.bin"
    path.write_bytes(random_bytes(2 * MB, seed))
    result = lab.push(path)
    assert states(result) == dict.fromkeys(lab.receivers, "verified")
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def test_routers_and_receivers_outlive_any_datagrams(
    lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    push_works(lab, tmp_path, 1)
    lab.kill("h4")
    address = {n.name: n.address for n in fabric.nodes}
    targets = [(address[n], PORT) for n in ("leaf1", "leaf2", "spine1", "h1", "h3")]
    pids = {n: lab.pid(n) for n in lab.nodes() if n != "h4"}
    before = {n: dirty_kb(pid) for n, pid in pids.items()}
    blaster = Blaster(1, 5, address["h0"], 40_000)
    with ExitStack() as stack:
        socks = [bound(stack, address["h4"], PORT), bound(stack, STRANGER)]
        socks += [bound(stack, address[n]) for n in ("leaf1", "leaf2", "spine1", "h1")]
        blast(blaster, socks, targets, N_DATAGRAMS)
    after = {n: dirty_kb(pid) for n, pid in pids.items()}
    assert {n for n, pid in pids.items() if not is_running(pid)} == set()
    assert {n: after[n] - before[n] for n in pids if after[n] - before[n] > GROWTH_KB} == {}
    for node in ("leaf1", "leaf2", "spine1", "h1", "h3"):
        counted = drops(lab, node)
        assert set(counted) <= set(DropReason)
        assert counted["unknown_peer"] > 100
        assert counted["truncated"] > 0
        assert sum(counted.values()) > N_DATAGRAMS // 20
    assert {"bad_version", "unknown_bift", "bad_inner"} & set(drops(lab, "leaf1"))
    assert no_trace(lab)
    lab.revive()
    push_works(lab, tmp_path, 2)


def test_impaired_ports_outlive_any_datagrams(
    lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    lab.revive()
    address = {n.name: n.address for n in fabric.nodes}
    impairment = {
        "drop_ppb": 10**8,
        "duplicate_ppb": 10**8,
        "reorder_ppb": 5 * 10**8,
        "corrupt_ppb": 10**8,
        "delay_ps": 10**9,
    }
    both = {"leaf1": impairment, "spine1": impairment, "h1": impairment, "h2": impairment}
    for node in ("leaf1", "h1"):
        assert lab.ask(node, do="impair", links=both, seed=5) == {"ok": True}
    blaster = Blaster(2, 5, address["h0"], 40_000)
    with ExitStack() as stack:
        socks = [bound(stack, address[n]) for n in ("leaf1", "spine1", "h1", "h2")]
        blast(blaster, socks, [(address["leaf1"], PORT), (address["h1"], PORT)], N_FEW)
    assert lab.deaths() == {}
    for node in ("leaf1", "h1"):
        assert lab.ask(node, do="impair", links={}, seed=5) == {"ok": True}
        assert drops(lab, node)["impaired"] > 0
    assert lab.deaths() == {}
    push_works(lab, tmp_path, 3)


def test_a_push_outlives_any_datagrams_at_its_flow_port(
    lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    lab.revive()
    address = {n.name: n.address for n in fabric.nodes}
    path = tmp_path / "under-fire.bin"
    path.write_bytes(random_bytes(6 * MB + int(FUZZ_S * MB / 4), 4))
    before = lab.sent("leaf1", "h1")
    push = lab.start_push(path, "--rate", SLOW_RATE if FUZZ_S else "16Mbps")
    try:
        wait_for(lambda: lab.sent("leaf1", "h1") > before, "data under way", 20)
        (port,) = udp_ports(address["h0"]) - {PORT}
        blaster = Blaster(3, 5, address["h0"], port)
        with ExitStack() as stack:
            socks = [bound(stack, address["leaf1"]), bound(stack, STRANGER)]
            blast(blaster, socks, [(address["h0"], port)], N_FEW, push.poll)
    finally:
        code, _, err = finish(push, 90)
    assert code == 0, err
    assert err == ""
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def udp_ports(address: str) -> set[int]:
    """Local UDP ports that are bound on an address."""
    mine = f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}"
    rows = [line.split()[1] for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return {int(row.split(":")[1], 16) for row in rows if row.split(":")[0] == mine}


def test_flows_that_nobody_ends_do_not_lock_a_push_out(
    lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    lab.restart("h1")
    blaster = Blaster(6, 5, fabric.by_name["h0"].address, 40_000)
    with ExitStack() as stack:
        sock = bound(stack, fabric.by_name["leaf1"].address)
        for flow in range(2, 2 * N_FLOWS + 2, 2):
            begun = blaster.first_of(flow, 1)
            wait_for(partial(send, sock, begun, (fabric.by_name["h1"].address, PORT)), "sent")
    push_works(lab, tmp_path, 6)


@pytest.mark.parametrize("whose", ["h0", "h2"])
def test_strange_pushes_at_a_receiver_hold_no_honest_one_up(
    lab: LiveLab, fabric: Fabric, tmp_path: Path, whose: str
) -> None:
    """32 begun pushes a second, in the name of the honest sender or of another host."""
    lab.revive()
    node = fabric.by_name[whose]
    blaster = Blaster(7, node.bfr_id, node.address, 40_000)
    took, grown = [], 0
    for k in range(2):
        path = tmp_path / f"beside-{whose}-{k}.bin"
        path.write_bytes(random_bytes(4 * MB, 70 + 10 * k + node.bfr_id))
        refused, dirty = drops(lab, "h1").get("unknown_flow", 0), dirty_kb(lab.pid("h1"))
        push = lab.start_push(path, "--rate", "16Mbps")
        with ExitStack() as stack:
            sock = bound(stack, fabric.by_name["leaf1"].address)
            for flow in range(2, 2 * MAX_STRANGE, 2):
                if k == 1:
                    send(sock, blaster.first_of(flow, 1), (fabric.by_name["h1"].address, PORT))
                time.sleep(1 / 32)
                if push.poll() is not None:
                    break
        code, out, err = finish(push, 60)
        assert code == 0, err
        took.append(json.loads(out)["seconds"])
        grown = dirty_kb(lab.pid("h1")) - dirty
    assert took[1] < 1.5 * took[0] + 1, took
    assert grown < GROWTH_KB
    assert drops(lab, "h1")["unknown_flow"] >= refused + 8
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def test_a_host_passes_nothing_on(lab: LiveLab, fabric: Fabric) -> None:
    lab.restart("h1")
    blaster = Blaster(8, 5, fabric.by_name["h0"].address, 40_000)
    with ExitStack() as stack:
        sock = bound(stack, fabric.by_name["leaf1"].address)
        for flow in range(2, 2 * N_FLOWS + 2, 2):
            for_another = blaster.first_of(flow, 2)
            send(sock, for_another, (fabric.by_name["h1"].address, PORT))
    wait_for(lambda: drops(lab, "h1").get("not_mine", 0) >= N_FLOWS // 2, "drops counted")
    assert lab.sent("h1", "leaf1") == 0


def test_ids_of_nobody_end_no_node(lab: LiveLab, fabric: Fabric) -> None:
    """Each kind in the name of 0 and of ids beyond, and with every bit of a header flipped."""
    lab.revive()
    maker = HostilePackets(11, bsl=3, own=5, top=5, flows=(6,))
    before = drops(lab, "h1").get("bad_bfir", 0)
    where = (fabric.by_name["h1"].address, PORT)
    with ExitStack() as stack:
        sock = bound(stack, fabric.by_name["leaf1"].address)
        for make in (maker.data, maker.question, maker.report, maker.word, maker.fold):
            packet = make()
            for one in (*maker.every_id(packet), *maker.every_flip(packet[:2000])):
                wait_for(partial(send, sock, one, where), "sent")
    wait_for(lambda: drops(lab, "h1").get("bad_bfir", 0) > before, "counted by its reason")
    assert drops(lab, "h1").get("fault", 0) == 0
    assert lab.deaths() == {}


@pytest.mark.parametrize("flags", [(), ("--seal",)], ids=["open", "sealed"])
def test_pushes_and_sums_hold_while_mutated_captures_hit_every_port(
    site: Site, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """A few seconds of `make hostile`."""
    keys = ("--keys",) if flags else ()
    made = LiveLab(site, "under-fire", *hostile_run.FLAGS, *keys)
    try:
        seen = hostile_run.HostileRun(made, tmp_path, 5, flags).run(3.0)
    finally:
        made.down()
    assert seen["sums"] > 0
    assert seen["receivers verified"] > 0
    assert seen["dropped wrong_port"] > 0


def knock(stack: ExitStack, where: ControlSocket) -> socket.socket:
    """Connect to a control socket that may be busy with others."""
    family = socket.AF_INET if isinstance(where, tuple) else socket.AF_UNIX
    sock = stack.enter_context(closing(socket.socket(family)))
    sock.settimeout(PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            sock.connect(where)
        except BlockingIOError:  # a Unix control socket whose queue is full
            assert time.monotonic() < until, "nobody accepts"
            time.sleep(0.01)
            continue
        return sock


def throw(where: ControlSocket, garbage: bytes) -> None:
    """Put bytes into a control socket and wait a moment for what it says."""
    with ExitStack() as stack:
        sock = knock(stack, where)
        sock.settimeout(0.3)
        try:
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            sock.recv(65536)
        except OSError:  # it has hung up, or says nothing
            return


@pytest.mark.parametrize("node", ["leaf1", "h1", "supervisor"])
def test_a_local_control_socket_outlives_any_bytes(lab: LiveLab, node: str) -> None:
    lab.revive()
    pids = {n: lab.pid(n) for n in lab.nodes()}
    control_socket = lab.folder / "control" / f"{node}.sock"
    random = Random(7)
    noise = [random.randbytes(random.randrange(200)) for _ in range(20)]
    with ExitStack() as stack:
        for _ in range(N_HALF_OPEN):
            knock(stack, str(control_socket))
        for garbage in (*GARBAGE, *noise):
            throw(str(control_socket), garbage)
        wanted = {"do": "restart", "node": "h2"} if node == "supervisor" else {"do": "status"}
        assert "error" not in call(control_socket, wanted, 10.0)
    assert [n for n, pid in pids.items() if n != "h2" and not is_running(pid)] == []
    assert no_trace(lab), (lab.folder / "lab.log").read_text()[-3000:]


def test_a_tcp_control_socket_outlives_any_bytes_and_tells_only_the_status(
    site: Site, lab: LiveLab, tmp_path: Path
) -> None:
    del lab  # its start has compiled what there was to compile
    config = tmp_path / "pair.toml"
    base = f"127.93.{1 + os.getpid() % 250}"
    nodes = (("leaf1", 1, "bfr", 0), ("h1", 2, "host", 1))
    rows = [
        f'[[node]]\nname = "{name}"\naddress = "{base}.{last}"\nrole = "{role}"\nbfr_id = {i}\n'
        for name, last, role, i in nodes
    ]
    link = '[[link]]\nbetween = ["leaf1", "h1"]\n'
    config.write_text('[fabric]\nname = "pair"\n' + "".join(rows) + link)
    run = site.start("bfr", "--config", config, "--node", "leaf1")
    where = (f"{base}.1", PORT)
    try:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("leaf1:")
        with ExitStack() as stack:
            for _ in range(N_HALF_OPEN):
                knock(stack, where)
            for garbage in GARBAGE:
                throw(where, garbage)
            status = call(where, {"do": "status"}, 10.0)
            assert status["name"] == "leaf1"
            for verb in ("impair", "capture", "restart"):
                answer = call(where, {"do": verb, "links": {}, "seed": 1, "path": "x"}, 10.0)
                assert answer == {"error": "do: allowed: status, table, vat"}  # to this user
        assert run.poll() is None
    finally:
        run.terminate()
        code, _, err = finish(run, 20)
    assert (code, err) == (0, "")
