"""`fanfold peers` on real namespaces: what it counts and leaves, a wrong byte; needs root."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from live_site import Site, finish, random_bytes, wait_for

from fanfold.kernels.jit import JIT
from fanfold.peers.ground import SENDER, Ground
from fanfold.peers.race import Race, row_of
from fanfold.peers.tcp import Tcp
from fanfold.peers.transfer import NAME, Outcome, Transfer, digest_of, run_transfer
from fanfold.units import Bps, Ppb

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and ip"),
]
SIZE = 4 << 20
RATE = Bps(200_000_000)
ENOUGH_S = 60.0


class Careless(Tcp):
    """Flips one byte at h2 before anybody looks."""

    def copy(self, t: Transfer, host: str) -> Path:
        path = super().copy(t, host)
        if host == "h2":
            data = bytearray(path.read_bytes())
            data[SIZE // 2] ^= 1
            path.write_bytes(data)
        return path


def spaces() -> list[str]:
    told = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    return [word for word in told.split() if word.startswith("ff.peers")]


def test_bytes_of_links_cpu_and_right_copies_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TCP to three: three copies on h0's link; a wrong byte, and a dead receiver by name."""
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))
    file = tmp_path / NAME
    file.write_bytes(random_bytes(SIZE, 14))
    digest = digest_of(file)

    def took(peer: Tcp, loss_ppb: int = 0, victim: str = "") -> Outcome:
        t = Transfer(ground, file, tmp_path, Ppb(loss_ppb), victim)
        return run_transfer(peer, t, digest)

    with Ground("peerstest", 3, RATE, 9000, has_nodes=False).up() as ground:
        race = Race(SIZE, 3, RATE, 9000, ground.limit_s(SIZE), ENOUGH_S, "", 0.0)
        well = took(Tcp())
        assert (well.right, well.wrong, well.code) == (ground.receivers, [], 0)
        assert 3 * 0.95 < (well.seconds - well.stood_s) / race.limit_s < 20
        assert 3 < well.sender_bytes / SIZE < 3.1
        # all in and out at leaf1, whose own host is the first of three; two cross a spine
        assert 2 * 3 + 2 * 2 < well.all_bytes / SIZE < 2 * 3 + 2 * 2 + 0.5
        assert 0 < well.cpu_s < 5
        assert 0 < well.had_s <= well.seconds + 0.01
        lossy = took(Tcp(), loss_ppb=10**7)
        assert lossy.right == ground.receivers
        assert lossy.n_lost > 0
        careless = took(Careless())
        assert (careless.right, careless.wrong) == (["h1", "h3"], ["h2"])
        assert row_of("tcp", Ppb(0), [well], race).is_right
        assert not row_of("tcp", Ppb(0), [well, careless], race).is_right
        killed = took(Tcp(), victim="h2")
        assert (killed.right, killed.named, killed.code) == (["h1", "h3"], ["h2"], 1)
        assert ground.strangers() == []
        assert SENDER not in ground.nodes()
    assert spaces() == []


@pytest.mark.skipif(not JIT, reason="a live push is for compiled code")
def test_the_verb_has_fanfold_beside_tcp_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(random_bytes(SIZE, 15))
    words = ["peers", file, "--with", "fanfold,tcp", "--hosts", 2, "--rounds", 1, "--loss", "0"]
    told = site.read(*words, timeout_s=300)
    fanfold, tcp = told["rows"]
    assert (fanfold["n_right"], tcp["n_right"]) == (2, 2)
    assert fanfold["sender_copies"] < 1.1
    assert 2 < tcp["sender_copies"] < 2.1
    assert fanfold["cpu_s"] > 0
    assert told["commands"]["fanfold"]["sender"][:2] == ["fanfold", "push"]
    assert spaces() == []


def test_ctrl_c_ends_every_process_and_namespace(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "large.bin"
    file.write_bytes(random_bytes(8 * SIZE, 16))
    words = ["peers", file, "--with", "tcp", "--hosts", 4, "--loss", "0", "--rate", "20Mbps"]
    verb = site.start(*words)
    wait_for(senders, "a transfer", ENOUGH_S)
    (name,) = {space.split(".")[1] for space in spaces()}
    verb.send_signal(signal.SIGINT)
    code, _, err = finish(verb, 30)
    assert (code, err.strip().splitlines()[-1]) == (130, "error: interrupted")
    assert [space for space in spaces() if name in space] == []
    assert senders() == []
    assert list(Path("/dev/shm").glob(f"fanfold-peers-{name.removeprefix('peers')}-*")) == []


def senders() -> list[str]:
    """Processes that send by TCP."""
    words = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words.append(entry.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in words if "tcp_end.py send" in line]
