"""A key log that was asked for, and that keys stand nowhere else of all that a push leaves."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_site import Site, all_verified, finish, wait_for
from test_live_link_keys import Place, heard, hears_all, one_of
from test_tshark import read, tshark, write_capture

from fanfold.wire.pcapng import LINKTYPE_IPV4

pytestmark = pytest.mark.live
__all__ = ["tshark"]

WORDS = b"the secret words of a model, again and again. "
N_KEYS = 2 * 2 * 3 + 1
"""Both ends of three links note both ways, and the push its content key."""


@pytest.fixture(scope="module")
def log(site: Site) -> Path:
    return site.state / "keys.log"


@pytest.fixture(scope="module")
def told(site: Site, log: Path) -> Iterator[Place]:
    made = Place(site, "live-key-log", "--link-keys", "--keys", "--keylog", log)
    wait_for(lambda: all(made.has_keys(node) for node in made.nodes()), "keys of all links")
    yield made
    made.down()


def forms(secret: bytes) -> list[bytes]:
    """How somebody might have written it."""
    text = base64.urlsafe_b64encode(secret).rstrip(b"=")
    return [secret, secret.hex().encode(), text, base64.b64encode(secret).rstrip(b"=")]


def secrets(lab: Place, log: Path) -> list[bytes]:
    """Every session's, every push's and every node's."""
    lines = [line.split() for line in log.read_text().splitlines()]
    found = [bytes.fromhex(key) for _, _, key in lines]
    for path in (lab.folder / "keys").rglob("*.key"):
        for word in path.read_text().split():
            raw = word.partition(":")[2]
            found.append(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
    return found


def test_keys_are_in_the_log_that_was_asked_for_and_nowhere_else(
    told: Place, log: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plain.bin"
    path.write_bytes(WORDS * 20_000)
    pcap = tmp_path / "push.pcapng"
    flags = ("--seal", "--keylog", log, "--pcap", pcap, "--snaplen", 0)
    done = told.site.run(*told.push_args(path, *flags))
    assert done.returncode == 0, done.stderr
    assert all_verified(told, json.loads(done.stdout))
    assert f"writes its keys to {log}" in done.stderr
    lab_log = (told.folder / "lab.log").read_text()
    assert lab_log.count(f"writes its keys to {log}") == len(told.nodes())
    assert log.stat().st_mode & 0o777 == 0o600
    known = secrets(told, log)
    assert len(known) > N_KEYS
    status = json.dumps([told.status(node) for node in told.nodes()]).encode()
    left = {"result": done.stdout.encode(), "stderr": done.stderr.encode(), "status": status}
    for each in (*told.folder.rglob("*"), *tmp_path.rglob("*")):
        if each.is_file() and each.suffix != ".key":
            left[str(each)] = each.read_bytes()
    assert any(name.endswith("fabric.toml") for name in left)
    for secret in known:
        for form in forms(secret):
            assert [name for name, octets in left.items() if form in octets] == []
    assert WORDS not in pcap.read_bytes()


@hears_all
def test_tshark_checks_what_passed_and_opens_it(
    told: Place, log: Path, tmp_path: Path, tshark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "taped.bin"
    path.write_bytes(WORDS * 20_000 + b"2")
    monkeypatch.setenv("FANFOLD_KEYLOG", str(log))
    flags = ("--seal", "--keylog", log)
    packets = one_of(heard(told, path, "h0", "leaf1", *flags), 1000)[:3]
    capture = tmp_path / "taped.pcapng"
    write_capture(capture, [*packets, packets[0][:-1] + b"\0"], LINKTYPE_IPV4)
    names = ["fanfold_bier.link_check", "fanfold.opened"]
    seen = read(tshark, capture, names)
    assert [cells[names[0]] for cells in seen] == [["good"]] * 3 + [["bad"]]
    for cells in seen:
        assert bytes.fromhex(cells[names[1]][0]) in path.read_bytes()


def test_a_key_log_that_others_read_is_refused(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    path.write_text("")
    path.chmod(0o644)
    code, _, err = finish(site.start("lab", "up", "--name", "x", "--keylog", path))
    assert code == 2
    assert "--keylog" in err
    assert "644" in err
