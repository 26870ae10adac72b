"""What the BFRs of a lab see of a push, in one file, and how large it will be."""

import shutil
from collections.abc import Callable
from pathlib import Path

from fanfold.api.site import Site
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.kernels.layout import UNDERLAY_BYTES
from fanfold.live.capture import WHOLE, merge_captures
from fanfold.push.geometry import head_bytes
from fanfold.push.service import Push
from fanfold.topo.fabric import Fabric
from fanfold.topo.predict import predict_links
from fanfold.units import format_size

BLOCK_BYTES = 48
"""Of a pcapng block beside its frame: lengths, time, direction."""
WORDS_BYTES = 128
"""Kept beside the headers of DATA: most FEEDBACK, ASK and REPORT are whole then."""


def check_capture(pcap: Path | None, path: Path) -> None:
    """A capture can be written before anything is sent, and not over what is sent."""
    if pcap is None:
        return
    if not pcap.absolute().parent.is_dir():
        raise ConfigError("--pcap", str(pcap), "a file in a folder that exists")
    if pcap.exists() and path.exists() and pcap.samefile(path):
        raise ConfigError("--pcap", str(pcap), "another file than PATH")
    try:
        pcap.open("ab").close()
    except OSError as error:
        got = f"{pcap}: {error.strerror}"
        raise ConfigError("--pcap", got, "a file that can be written") from error


def snaplen_of(fabric: Fabric, asked: int | None) -> int:
    """Bytes kept of each packet from BIER on: asked for, 0 = all; else headers and words."""
    if asked is None:
        return head_bytes(fabric.bitstring_bits) + WORDS_BYTES
    return asked or WHOLE


def size_of(job: Push, snaplen: int) -> int:
    """About how many bytes a capture of the push takes, when nothing is lost."""
    fabric = job.fabric
    stride = job.geometry.stride
    whole = head_bytes(fabric.bitstring_bits) + stride
    n = -(-job.manifest.total_bytes // stride)
    sent = [(frozenset(job.targets), n, n * whole, job.entropy())]
    bfrs = {node.name for node in fabric.nodes if node.role == "bfr"}
    links = predict_links(fabric, job.source, sent)
    seen = sum(packets * len(bfrs & set(ends)) for ends, (packets, _) in links.items())
    return seen * (BLOCK_BYTES + UNDERLAY_BYTES + min(snaplen, whole))


def tell_size(job: Push, pcap: Path, snaplen: int, tell: Callable[[str], None]) -> None:
    """Say before the push how large its capture will be.

    Raises:
        ConfigError: larger than the room there is for it.
    """
    n_bytes, room = size_of(job, snaplen), shutil.disk_usage(pcap.absolute().parent).free
    if n_bytes > room:
        allowed = f"at most {format_size(room)}, what is free there; --snaplen 64 keeps less"
        raise ConfigError("--pcap", f"{pcap} of about {format_size(n_bytes)}", allowed)
    what = "whole packets" if snaplen >= WHOLE else f"{snaplen} bytes of each packet"
    more = (
        ""
        if snaplen >= WHOLE
        else f"; --snaplen 0 keeps all, {format_size(size_of(job, WHOLE))}"
    )
    tell(f"--pcap: about {format_size(n_bytes)}, {what}{more}")


def start_capture(site: Site, pcap: Path | None, snaplen: int) -> dict[str, Path]:
    """Let every BFR of a lab write what it sees; files by node."""
    if pcap is None:
        return {}
    bfrs = [n.name for n in site.fabric.nodes if n.role == "bfr"]
    raw = {name: site.lab.folder / f"{name}.raw" for name in bfrs}
    order = {"do": "capture", "snaplen": snaplen}
    requests = {name: order | {"path": str(path)} for name, path in raw.items()}
    for name, answer in site.order(requests).items():
        if "error" in answer:
            raise EnvironmentLack(f"--pcap: {name}: {answer['error']}")
    return raw


def end_capture(site: Site, pcap: Path | None, raw: dict[str, Path]) -> None:
    """Join what the BFRs wrote into one file."""
    if pcap is None or not raw:
        return
    answers = site.order({name: {"do": "capture"} for name in raw}).values()
    lost = sum(answer.get("lost", 0) for answer in answers)
    merge_captures([path for path in raw.values() if path.exists()], pcap)
    for path in raw.values():
        path.unlink(missing_ok=True)
    if lost:
        site.tell(f"--pcap: {lost} packets found no room in the capture buffers")
