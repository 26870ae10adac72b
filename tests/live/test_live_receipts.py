"""Receipts, statements and ways of pushes on a live lab whose nodes have labels.

Two leaves, spine1 in the EU and spine2 in the US. Red's packets keep to nodes in the EU, by the
tables of BFRs; other hosts' do not. docs/threats.md names these tests.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from live_site import LiveLab, Site, random_bytes, states, wait_for
from tenant_packets import Aim, packets

from fanfold.api.tenants import with_tenants
from fanfold.push.attesting import software_digest
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.lab_fabric import leaf_spine

pytestmark = pytest.mark.live

PORT = 8138
RED = 1


class Labelled(LiveLab):
    """Red: h0, h1, h3. Of no tenant: h2, h4. h0 to h2 hang on leaf1."""

    def __init__(self, site: Site, folder: Path) -> None:
        plain = leaf_spine(2, 2, 4, prefix=200 + os.getpid() % 50)
        regions = {"spine2": "us"}
        nodes = tuple(
            msgspec.structs.replace(n, labels=(("region", regions.get(n.name, "eu")),))
            for n in plain.nodes
        )
        fabric = msgspec.structs.replace(plain, nodes=nodes)
        file = folder / "fabric.toml"
        save_fabric(with_tenants(fabric, ["red:h0,h1,h3:only_through=region=eu"]), file)
        super().__init__(site, "live-labels", "--config", file, "--keys")
        self.fabric: Fabric = load_fabric(self.folder / "fabric.toml")
        self.trusted = self.folder / "keys" / "trusted.toml"

    def received(self, node: str, kind: str = "data") -> int:
        """Packets of a class that came to a node, over all links."""
        rows = self.status(node)["links"].values()
        return sum(int(row["rx"].get(kind, [0, 0])[0]) for row in rows)


@pytest.fixture(scope="module")
def lab(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labelled]:
    made = Labelled(site, tmp_path_factory.mktemp("labels"))
    yield made
    made.down()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("receipts") / "model.bin"
    path.write_bytes(random_bytes(1_000_000, 3))
    return path


def test_receivers_sign_what_they_have_and_a_file_proves_it(
    lab: Labelled, model: Path, tmp_path: Path
) -> None:
    known = tmp_path / "software"
    known.write_text(f"{software_digest().hex()}  # here\n")
    flags = ("--seal", "--receipts", tmp_path / "r", "--attest", known)
    result = lab.push(model, *flags, "--only-through", "region=eu")
    assert states(result) == {"h1": "verified", "h3": "verified"}
    rows = {row["id"]: row for row in result["receivers"]}
    assert all(row["attested"].startswith("attested: software ") for row in rows.values())
    (tmp_path / "push.json").write_text(json.dumps(result))
    files = [rows[name]["receipt"] for name in ("h1", "h3")]
    check = ("keys", "verify-receipt", "--trusted", lab.trusted, "--of", tmp_path / "push.json")
    done = lab.site.run(*check, *files)
    assert done.returncode == 0, done.stderr
    assert "h1 (region=eu) has 'model.bin', " in done.stdout
    assert ", from h0, " in done.stdout
    told = json.loads(Path(files[0]).read_text())
    Path(files[0]).write_text(json.dumps(told | {"at_ns": told["at_ns"] + 1}))
    done = lab.site.run(*check, *files)
    assert done.returncode == 4
    assert "refused: changed after it was signed" in done.stdout
    assert "1 of 2 receipts prove nothing" in done.stderr


def test_without_a_verifier_no_result_says_attested(lab: Labelled, model: Path) -> None:
    result = lab.push(model, "--sign", "--as", "plain")
    assert {row["attested"] for row in result["receivers"]} == {"not attested"}
    assert {row["receipt"] for row in result["receivers"]} == {""}


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ("--from", "h2", "--sign", "--only-through", "region=eu"),
            "--only-through: got 'spine2 has region=us', allowed: region=eu at all nodes "
            "between h2 and its receivers",
        ),
        (
            ("--only-through", "region=eu"),
            "--only-through: got 'region=eu', allowed: none without --sign or --seal",
        ),
        (("--sign", "--only-through", "eu"), "--only-through: got 'eu', allowed: KEY=VALUE"),
        (("--receipts", "r"), "--receipts: got 'r', allowed: none without --sign or --seal"),
    ],
)
def test_a_push_whose_ways_break_its_rule_is_refused_before_it_is_sent(
    lab: Labelled, model: Path, flags: tuple[str, ...], line: str
) -> None:
    before = lab.received("leaf1")
    done = lab.site.run(*lab.push_args(model, *flags))
    assert done.returncode == 2
    assert line in done.stderr
    assert lab.received("leaf1") == before


def test_bfrs_at_a_border_pass_nothing_of_a_confined_tenant_on(lab: Labelled) -> None:
    """Whatever the entropy, red's DATA goes by spine1; spine2 knows no table of red."""
    by_name = lab.fabric.by_name
    outside, inside = lab.received("spine2"), lab.received("spine1")
    aim = Aim(RED, by_name["h0"].bfr_id, 1 << by_name["h3"].bfr_id - 1, 0x400)
    packet = dict(packets(aim))["data"]
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind((by_name["h0"].address, 0))
        for entropy in range(16):
            one = bytearray(packet)
            one[7] = entropy
            sock.sendto(one, (by_name["leaf1"].address, PORT))
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind((by_name["leaf1"].address, 0))
        sock.sendto(packet, (by_name["spine2"].address, PORT))

    def drops() -> int:
        return int(lab.status("spine2")["drops"].get("unknown_bift", 0))

    wait_for(lambda: lab.received("spine1") == inside + 16, "all of them by spine1")
    wait_for(lambda: drops() == 1, "one that spine2 drops")
    assert lab.received("spine2") == outside
