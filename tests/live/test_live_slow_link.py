"""A slow link behind a BFR is the trouble of who is behind it, and of nobody else."""

import json
import sys
from pathlib import Path

import pytest
from live_site import Site, finish, random_bytes
from shaped_net import star

pytestmark = pytest.mark.live

MIB = 1 << 20
SLOW, FAST, UPLINK = 8_000_000, 50_000_000, 200_000_000

IMPATIENT = (
    sys.executable,
    "-c",
    """
from fanfold.cli.main import main
from fanfold.core import leaving

leaving.STALL_PS = 3 * 10**12
main()
""",
)
"""fanfold that takes 3 s without progress for the end of a receiver, not 20."""


def test_a_slow_link_holds_no_neighbour_up_and_its_own_host_gets_all(
    site: Site, tmp_path: Path
) -> None:
    """4 MB: 0.7 s of a fast link, 4 of the slow one.

    Two copies leave the source, one for each pace, and what overflowed queues before it knew:
    that is half a megabyte on a quiet machine, more where the sender hears late of it.
    """
    file = tmp_path / "file.bin"
    file.write_bytes(random_bytes(4 * MIB, 10))
    rates = {"h0": UPLINK, "h1": SLOW, "h2": FAST, "h3": FAST}
    with star(site, tmp_path, rates) as net:
        told = net.push(file, timeout_s=120)
    ends = {r["id"]: r for r in told["receivers"]}
    assert {r["state"] for r in ends.values()} == {"verified"}, told
    assert told["gray"] == []  # its queue drops, and no link
    slow_s = ends["h1"]["seconds"]
    assert 0.9 < slow_s / (4 * MIB * 8 / SLOW) < 2, told
    assert max(ends["h2"]["seconds"], ends["h3"]["seconds"]) < slow_s / 2, told
    (sent,) = (x["bytes"] + x["repair_bytes"] for x in told["links"] if x["from"] == "h0")
    assert sent < 2.8 * 4 * MIB, told


def test_a_link_that_became_too_small_is_named_in_words(site: Site, tmp_path: Path) -> None:
    """Words pass, data does not; the other host has it all."""
    file = tmp_path / "file.bin"
    file.write_bytes(random_bytes(MIB, 11))
    rates = {"h0": UPLINK, "h1": UPLINK, "h2": UPLINK}
    with star(site, tmp_path, rates) as net:
        net.set_mtu("leaf1", "h1", 1500)
        code, out, err = finish(net.start_push(file, first=IMPATIENT), 60)
    told = json.loads(out)
    ends = {r["id"]: r["state"] for r in told["receivers"]}
    assert (code, ends) == (4, {"h1": "failed", "h2": "verified"})
    (note,) = told["notes"]
    assert note.startswith("leaf1: packets to h1 were larger than a link takes"), told
    assert note in err
