"""Two tenants on one fabric, with hosts on the same leaf: apart, and in nobody's way.

The actor is red: a tenant's own host, or whoever has its address. It knows blue's flows, sends
what it likes, as fast as it can; docs/threats.md names these tests.
"""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from live_site import LiveLab, Site, random_bytes, states, wait_for
from tenant_packets import Aim, packets

from fanfold.live.syscalls import SOL_UDP, UDP_SEGMENT
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

pytestmark = pytest.mark.live

MB = 1_000_000
PORT = 8138
RED, BLUE, NONE = 1, 2, 0
LINK, QUOTA = "50Mbps", "10Mbps"
BLUE_RATE = "38Mbps"
"""95 % of the link's 50 less red's 10."""
FLOOD_BPS = 80 * MB


class Shared(LiveLab):
    """Red: h0, h4, h5. Blue: h1, h6. Of no tenant: h2, h3. h0 to h3 hang on leaf1."""

    def __init__(self, site: Site) -> None:
        shape = ("--leaves", 2, "--spines", 1, "--hosts", 6)
        red = f"red:h0,h4-5:rate={QUOTA},slots=64,cache=1MiB,receivers=1"
        super().__init__(
            site, "live-tenants", *shape, "--tenant", red, "--tenant", "blue:h1,h6"
        )
        self.fabric: Fabric = load_fabric(self.folder / "fabric.toml")

    def uses(self, node: str) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = self.status(node)["tenants"]
        return found

    def came(self, node: str) -> object:
        """All that a node counted of what came in."""
        return {to: link["rx"] for to, link in self.status(node)["links"].items()}


@pytest.fixture(scope="module")
def shared(site: Site) -> Iterator[Shared]:
    made = Shared(site)
    yield made
    made.down()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tenants") / "model.bin"
    path.write_bytes(random_bytes(6 * MB, 1))
    return path


def test_a_push_goes_to_hosts_of_its_own_tenant(shared: Shared, model: Path) -> None:
    result = shared.push(model, "--from", "h1", "--as", "blue")
    assert states(result) == {"h6": "verified"}
    result = shared.push(model, "--from", "h2", "--as", "none")
    assert states(result) == {"h3": "verified"}
    assert shared.uses("leaf1")["blue"]["bytes"] > 6 * MB  # type: ignore[operator]
    assert shared.uses("leaf2")["-"]["bytes"] == 0


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ("--from", "h0", "--to", "h4,h6"),
            "--to: got 'h6 of tenant blue', allowed: hosts of tenant red: h4, h5, h0",
        ),
        (
            ("--from", "h1", "--to", "h3"),
            "--to: got 'h3 of no tenant', allowed: hosts of tenant blue: h1, h6",
        ),
        (("--from", "h0"), "--to: got '2 receivers', allowed: at most 1, of tenant red"),
    ],
)
def test_a_push_names_no_receiver_of_another_tenant(
    shared: Shared, model: Path, flags: tuple[str, ...], line: str
) -> None:
    done = shared.site.run(*shared.push_args(model, *flags))
    assert done.returncode == 2
    assert line in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_nothing_of_red_arrives_at_blue_whatever_it_sends(shared: Shared, model: Path) -> None:
    """Every kind of packet, in every sub-domain and name, of the flow of blue's last push."""
    shared.push(model, "--from", "h1", "--as", "known")
    known = {
        f["flow"] for f in shared.status("leaf1")["flows"] if f["bfir_id"] == _id(shared, 1)
    }
    assert known
    at = ("leaf1", "spine1", "leaf2")
    before = {n: shared.uses(n)["blue"] for n in at} | {n: shared.came(n) for n in ("h1", "h6")}
    folder = shared.site.state / "labs" / shared.name / "hosts" / "h6"
    files = sorted(folder.rglob("*"))
    ids = [_id(shared, k) for k in range(7)]
    n_sent = {RED: 0, BLUE: 0, NONE: 0, 9: 0}
    with red_socket(shared) as sock:
        for sub_domain in n_sent:
            for bfir_id in ids:
                for bits in (1 << _id(shared, 6) - 1, 1 << _id(shared, 1) - 1, 0x7F):
                    aim = Aim(sub_domain, bfir_id, bits, max(known), 1, 7, BLUE)
                    for _, packet in packets(aim):
                        sock.sendto(packet, (shared.fabric.by_name["leaf1"].address, PORT))
                        n_sent[sub_domain] += 1
                time.sleep(0.01)  # a socket holds so many small packets

    def drops() -> dict[str, int]:
        found: dict[str, int] = shared.status("leaf1")["links"]["h0"]["drops"]
        return found

    wait_for(lambda: drops().get("wrong_tenant", 0) >= n_sent[BLUE] + n_sent[NONE], "drops")
    assert drops()["unknown_bift"] == n_sent[9]
    after = {n: shared.uses(n)["blue"] for n in at} | {n: shared.came(n) for n in ("h1", "h6")}
    assert after == before
    assert sorted(folder.rglob("*")) == files
    result = shared.push(model, "--from", "h1", "--as", "after")
    assert states(result) == {"h6": "verified"}


def test_ranks_of_a_tenant_sum_in_its_own_slots(shared: Shared) -> None:
    """The same number of a group at another tenant is another group; none is of both."""
    asked = ("reduce-bench", "--lab", shared.name, "--sizes", "64KiB", "--rounds", 1)
    done = shared.site.run(*asked, "--ranks", "h1,h6")
    assert done.returncode == 0, done.stderr
    done = shared.site.run(*asked, "--ranks", "h1,h4")
    assert done.returncode == 2
    assert (
        "members: got 'h4 of tenant red', allowed: hosts of tenant blue: h1, h6" in done.stderr
    )


def test_blue_keeps_its_share_while_red_floods(shared: Shared, model: Path) -> None:
    """A link of 50 Mbit/s, red's quota 10 and its flood 80: blue pushes at 95 % of the rest."""
    impair = ("--impair", f"rate={LINK}@leaf1-spine1", "--rate", BLUE_RATE)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2):
        for is_flooded in (False, True):
            name = f"share-{turn}-{is_flooded}"
            with flood(shared) if is_flooded else no_flood():
                result = shared.push(model, "--from", "h1", "--as", name, *impair)
            assert states(result) == {"h6": "verified"}
            seconds[is_flooded].append(result["seconds"])
    red = shared.uses("leaf1")["red"]
    assert red["refused"]["tenant_rate"] > 1000  # type: ignore[index]
    kept = min(seconds[False]) / min(seconds[True])
    assert kept >= 0.95, seconds


def test_status_shows_what_each_tenant_uses(shared: Shared) -> None:
    told = shared.site.run("lab", "status", "--name", shared.name).stdout
    assert "leaf1: tenant red: slots " in told
    assert "leaf1: no tenant: slots " in told
    rows = shared.site.read("lab", "status", "--name", shared.name)[0]["nodes"]
    uses = rows["leaf1"]["status"]["tenants"]
    assert list(uses) == ["-", "red", "blue"]
    assert uses["red"]["slots"][1] == 64
    assert uses["red"]["cache"][1] == 1 << 20
    assert "tenants" not in rows["h6"]["status"]


def _id(shared: Shared, k: int) -> int:
    return shared.fabric.by_name[f"h{k}"].bfr_id


@contextmanager
def red_socket(shared: Shared) -> Iterator[socket.socket]:
    """With the address of h0, a host of red."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind((shared.fabric.by_name["h0"].address, 0))
        yield sock


@contextmanager
def no_flood() -> Iterator[None]:
    yield


@contextmanager
def flood(shared: Shared) -> Iterator[None]:
    """Red's DATA to h4, in its own name and sub-domain, eight times as much as it may."""
    aim = Aim(RED, _id(shared, 0), 1 << _id(shared, 4) - 1, 0x200, stride=1024)
    packet = dict(packets(aim))["data"]
    ends = [shared.fabric.by_name[name].address for name in ("h0", "leaf1")]
    child = subprocess.Popen(
        [sys.executable, __file__, *ends, str(FLOOD_BPS), packet.hex()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        time.sleep(0.5)
        assert child.poll() is None
        yield
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def _flood(address: str, to: str, bps: int, packet: bytes) -> None:
    n = 60_000 // len(packet)
    train, rest_s = packet * n, 8 * len(packet) * n / bps
    ancillary = [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", len(packet)))]
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind((address, 0))
        due = time.monotonic()
        while True:
            sock.sendmsg([train], ancillary, 0, (to, PORT))
            due += rest_s
            time.sleep(max(due - time.monotonic(), 0))


if __name__ == "__main__":
    _flood(sys.argv[1], sys.argv[2], int(sys.argv[3]), bytes.fromhex(sys.argv[4]))
