"""Pushes on a lab of real processes: who gets what, and what each link carried."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from live_site import (
    Json,
    LiveLab,
    Site,
    all_verified,
    data_packets,
    finish,
    links,
    off_prediction,
    random_bytes,
    states,
    wait_for,
    write,
)

from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.link import is_link
from fanfold.wire.packet import parse
from fanfold.wire.pcapng import CapturedPacket, Direction, read

pytestmark = [pytest.mark.live, pytest.mark.alone]

UNDERLAY_BYTES = 28
MB = 1_000_000
TRIES = 3
RESULT_KEYS = {
    "is_interrupted",
    "avoided",
    "taken_over_by",
    "weights",
    "notes",
    "gray",
    "planes",
    "unheard",
    "name",
    "source",
    "flow",
    "bytes",
    "n_blocks",
    "seconds",
    "data_seconds",
    "goodput_bps",
    "receivers",
    "links",
    "feedback",
    "repairs",
    "source_link_bytes",
    "drops",
    "suspects",
    "warnings",
    "cpu_seconds",
}
RECEIVER_KEYS = {
    *("id", "state", "blake3", "seconds", "error", "split", "kept"),
    *("receipt", "attested"),
}
LINK_KEYS = {
    "from",
    "to",
    "predicted_packets",
    "predicted_bytes",
    "packets",
    "bytes",
    "repair_packets",
    "repair_bytes",
    "feedback_packets",
    "counted",
}


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "live-push", "--leaves", 2, "--spines", 2, "--hosts", 8)
    yield made
    made.down()


@pytest.fixture(scope="module")
def clean(lab: LiveLab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Json]:
    """20 MB to all over good links; once more where a pause made the source ask."""
    path = tmp_path_factory.mktemp("clean") / "clean.bin"
    for seed in range(100, 100 + TRIES):
        path.write_bytes(random_bytes(20 * MB, seed))
        result = lab.push(path)
        if result["repairs"]["packets"] == 0:
            break
    return path, result


# Good links.


def test_everybody_has_the_bytes_and_says_their_hash(
    lab: LiveLab, clean: tuple[Path, Json]
) -> None:
    path, result = clean
    assert all_verified(lab, result)
    digest = blake3(path.read_bytes()).hexdigest()
    assert {r["blake3"] for r in result["receivers"]} == {digest}
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def test_each_link_carries_exactly_what_was_predicted(clean: tuple[Path, Json]) -> None:
    _, result = clean
    assert off_prediction(result) == []
    used = {way: row["packets"] for way, row in links(result).items() if row["packets"]}
    assert len(used) == 11  # h0, eight hosts, and one spine between the leaves
    assert len(set(used.values())) == 1
    assert result["repairs"] == {"packets": 0, "bytes": 0}


def test_the_source_link_carries_the_data_once(clean: tuple[Path, Json]) -> None:
    _, result = clean
    assert result["bytes"] == 20 * MB
    assert 20 * MB < result["source_link_bytes"] <= 20 * MB * 103 // 100


def test_feedback_reaches_the_source_folded(clean: tuple[Path, Json]) -> None:
    _, result = clean
    heard, unfolded = (result["feedback"][k] for k in ("at_source", "unfolded_equivalent"))
    assert unfolded >= 8 * result["n_blocks"]
    assert result["n_blocks"] <= heard <= unfolded // 2
    assert links(result)["leaf1", "h0"]["feedback_packets"] == heard


def test_the_result_has_the_documented_keys(clean: tuple[Path, Json]) -> None:
    _, result = clean
    assert result.keys() == RESULT_KEYS
    assert {frozenset(r) for r in result["receivers"]} == {frozenset(RECEIVER_KEYS)}
    assert {frozenset(row) for row in result["links"]} == {frozenset(LINK_KEYS)}
    assert result["feedback"].keys() == {"at_source", "unfolded_equivalent"}
    assert result["repairs"].keys() == {"packets", "bytes"}
    assert 0 < result["data_seconds"] <= result["seconds"]
    assert result["suspects"] == []


def test_the_log_has_a_line_of_each_node_for_each_push(
    lab: LiveLab, clean: tuple[Path, Json]
) -> None:
    (told,) = lab.site.read("lab", "status", "--name", lab.name)
    flow = f"{clean[1]['flow']:08x}"

    def missing() -> list[str]:
        lines = Path(told["log"]).read_text().splitlines()
        ends = [f" {h}: push 'clean.bin' from h0: verified and in place" for h in lab.receivers]
        passes = [f" {bfr}: push from h0 passes, flow {flow}" for bfr in ("leaf1", "leaf2")]
        return [end for end in ends + passes if not any(end in line for line in lines)]

    wait_for(lambda: not missing(), "a line of each node")


def test_a_second_push_of_the_same_sends_no_data(
    lab: LiveLab, clean: tuple[Path, Json]
) -> None:
    again = lab.push(clean[0])
    assert all_verified(lab, again)
    assert data_packets(again) == 0
    assert off_prediction(again) == []
    assert again["source_link_bytes"] < 64 * 1024


# Who and what.


def test_only_those_named_get_the_file(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "some.bin", MB, 2)
    result = lab.push(path, "--to", "h1,h3-5")
    assert states(result) == dict.fromkeys(("h1", "h3", "h4", "h5"), "verified")
    assert lab.who_has("some.bin", path.read_bytes()) == ["h1", "h3", "h4", "h5"]
    assert off_prediction(result) == []
    carried = {to for (_, to), row in links(result).items() if row["packets"]}
    assert carried.isdisjoint({"h2", "h6", "h7", "h8"})


def test_any_host_can_be_the_source(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "from3.bin", 2 * MB, 3)
    result = lab.push(path, "--from", "h3")
    others = [n for n in lab.everyone if n != "h3"]
    assert result["source"] == "h3"
    assert states(result) == dict.fromkeys(others, "verified")
    assert lab.who_has("from3.bin", path.read_bytes()) == others
    assert off_prediction(result) == []


def test_two_pushes_at_once_both_arrive(lab: LiveLab, tmp_path: Path) -> None:
    paths = [write(tmp_path, f"twin{i}.bin", 8 * MB, 10 + i) for i in range(2)]
    pushes = [lab.start_push(path) for path in paths]
    ended = [finish(push) for push in pushes]
    for path, (code, out, err) in zip(paths, ended, strict=True):
        assert code == 0, err
        assert all_verified(lab, json.loads(out))
        assert off_prediction(json.loads(out)) == []
        assert lab.who_has(path.name, path.read_bytes()) == lab.receivers


def test_a_rate_is_kept_and_costs_no_packet_more(lab: LiveLab, tmp_path: Path) -> None:
    """A block takes a quarter of a second to leave: nobody may take it for lost meanwhile."""
    result = lab.push(write(tmp_path, "slow.bin", 4 * MB, 5), "--rate", "16Mbps")
    assert all_verified(lab, result)
    assert result["goodput_bps"] <= 16_400_000
    assert result["data_seconds"] < 3 * 4 * MB * 8 / 16e6
    assert off_prediction(result) == []
    assert result["repairs"]["bytes"] < 4 * MB // 50
    assert result["source_link_bytes"] < 4 * MB * 105 // 100


# Bad links.


def repaired_of_one_lossy(lab: LiveLab, path: Path, *flags: str) -> dict[tuple[str, str], int]:
    """Bytes of repairs by link, where one receiver's link loses 1 %."""
    result = lab.push(path, "--loss", "1%@leaf1-h3", "--seed", 7, *flags)
    assert all_verified(lab, result)
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers
    assert off_prediction(result) == []
    repaired = {way: row["repair_bytes"] for way, row in links(result).items()}
    assert repaired["leaf1", "h3"] < result["bytes"] // 20
    return {way: n_bytes for way, n_bytes in repaired.items() if n_bytes}


def test_repairs_travel_only_toward_who_lost(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "onelossy.bin", 20 * MB, 6)
    repaired = repaired_of_one_lossy(lab, path, "--repair", "source")
    assert {*repaired} == {("h0", "leaf1"), ("leaf1", "h3")}
    assert repaired["h0", "leaf1"] == repaired["leaf1", "h3"]


def test_the_nearest_holder_repairs(site: Site, tmp_path: Path) -> None:
    """Losses of all links cost the source less than alone: 1.03 copies to 1.12 when quiet."""
    near = LiveLab(site, "near", "--leaves", 2, "--spines", 2, "--hosts", 8, "--cache", "16MiB")
    try:
        path, copies = write(tmp_path, "alllossy.bin", 10 * MB, 9), {}
        for repair in ("source", "nearest"):
            path.write_bytes(random_bytes(10 * MB, len(repair)))
            flags = ("--loss", "1%", "--seed", 8, "--rate", "100Mbps", "--repair", repair)
            result = near.push(path, *flags)
            assert all_verified(near, result)
            copies[repair] = result["source_link_bytes"]
        cache = near.status("leaf1")["cache"]
    finally:
        near.down()
    assert copies["nearest"] < copies["source"], copies
    assert cache["hit"] > 0, cache
    assert 0 < cache["bytes"] <= cache["room"] <= 16 << 20


def test_loss_reordering_duplicates_and_damage_together(lab: LiveLab, tmp_path: Path) -> None:
    path = write(tmp_path, "storm.bin", 4 * MB, 7)
    began = time.monotonic()
    result = lab.push(
        path, "--impair", "drop=5%,reorder=30%,duplicate=2%,corrupt=1%", "--seed", 3
    )
    assert time.monotonic() - began < 45
    assert all_verified(lab, result)
    assert lab.who_has(path.name, path.read_bytes()) == lab.receivers
    assert result["repairs"]["bytes"] < 4 * result["bytes"]


# Captures.


def test_a_capture_shows_the_packets_that_were_counted(lab: LiveLab, tmp_path: Path) -> None:
    out = tmp_path / "push.pcapng"
    path = write(tmp_path, "taped.bin", 2 * MB, 8)
    result = lab.push(path, "--pcap", out, "--snaplen", 0)
    capture = read(out.read_bytes())
    names = [face.name for face in capture.interfaces]
    ports = {f"{a}:{b}" for way in links(result) for a, b in (way, way[::-1])}
    assert {n for n in ports if not n.startswith("h")} <= set(names)
    assert len(set(names)) == len(names)
    assert sorted({n.partition(":")[0] for n in names}) == [
        "leaf1",
        "leaf2",
        "spine1",
        "spine2",
    ]
    seen = Counter(
        (names[p.interface], p.direction)
        for p in capture.packets
        if is_first_data(p, result["flow"] | 1)
    )
    counted: Counter[tuple[str, Direction]] = Counter()
    for (src, dst), row in links(result).items():
        counted[f"{src}:{dst}", Direction.OUTBOUND] += row["packets"]
        counted[f"{dst}:{src}", Direction.INBOUND] += row["packets"]
    tapped = {k: n for k, n in counted.items() if n and not k[0].startswith("h")}
    assert dict(seen) == tapped
    assert [p.at_ns for p in capture.packets] == sorted(p.at_ns for p in capture.packets)


def test_a_capture_keeps_headers_and_says_its_size_first(lab: LiveLab, tmp_path: Path) -> None:
    path, out = write(tmp_path, "short.bin", 2 * MB, 18), tmp_path / "short.pcapng"
    done = lab.site.run(*lab.push_args(path), "--pcap", out)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    found = re.search(
        r"--pcap: about ([0-9.]+) kB, (\d+) bytes of each packet; --snaplen 0", line
    )
    assert found, line
    said, size = float(found[1]) * 1e3, out.stat().st_size
    assert 0.6 * size < said < 1.4 * size
    packets = read(out.read_bytes()).packets
    lengths = {len(packet.frame) for packet in packets}
    assert max(lengths) == int(found[2]) + UNDERLAY_BYTES
    wholes = {int.from_bytes(packet.frame[2:4]) for packet in packets}
    assert max(wholes) > 8000  # the IPv4 length is that of the whole packet


def is_first_data(captured: CapturedPacket, flow: int) -> bool:
    octets = captured.frame[UNDERLAY_BYTES:]
    message = None if is_link(octets) else parse(octets).message
    return (
        isinstance(message, Data)
        and message.flow == flow
        and not message.flags & DataFlag.REPAIR
    )
