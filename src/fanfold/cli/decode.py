"""`fanfold decode`: bytes of a packet, or a capture of many, into fields, layer by layer."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from fanfold.cli.console import print_json, screen
from fanfold.errors import ConfigError, ExitCode, WireError
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import UDP_PORT, BierHeader
from fanfold.wire.bier_mpls import MplsBierHeader
from fanfold.wire.captures import Frame, is_capture, read_frames
from fanfold.wire.inner import Inner, address_text
from fanfold.wire.offline import (
    FORMS,
    Layer,
    OtherBierHeader,
    Outer,
    Reading,
    read,
    read_frame,
)

BITSTRING_FIELDS = frozenset({"bitstring", "heard", "done", "lacking"})
HEX_FIELDS = frozenset({"bift_id", "label", "flow", "group", "ethertype"})


def decode(
    packet: Annotated[
        str, typer.Argument(help="hex, - for standard input, or a pcap or pcapng file")
    ],
    *,
    form: Annotated[
        str, typer.Option("--as", help="what stands first: " + ", ".join(FORMS))
    ] = "auto",
    mpls: Annotated[bool, typer.Option("--mpls", help="the same as --as mpls")] = False,
    bsl: Annotated[
        int | None, typer.Option(help="bits of BitStrings, in place of what BSL fields say")
    ] = None,
    port: Annotated[int, typer.Option(help="UDP port of BIER")] = UDP_PORT,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show the fields of packets, BFR-ids too; exit 2 if a layer is refused."""
    if form not in FORMS:
        raise ConfigError("--as", form, ", ".join(FORMS))
    form = "mpls" if mpls else form
    code = bs.bsl_of_bits(bsl) if bsl is not None else 0
    buf = _content_of(packet)
    if is_capture(buf):
        found = [
            (frame, read_frame(frame.bytes, frame.linktype, code, port))
            for frame in _frames(buf)
        ]
        _show_capture(found, as_json=as_json)
        is_refused = any(reading.refused for _, reading in found)
    else:
        reading = read(_bytes_of(buf), form, code, port)
        is_refused = reading.refused is not None
        if as_json:
            print_json(_as_json(reading))
        else:
            _print(reading)
    if is_refused:
        raise typer.Exit(ExitCode.BAD_INPUT)


def _content_of(packet: str) -> bytes:
    """A file, standard input, or the words themselves."""
    if packet == "-":
        return sys.stdin.buffer.read()
    try:
        if Path(packet).is_file():
            return Path(packet).read_bytes()
    except (OSError, ValueError):  # too long for a name: hex
        pass
    return packet.encode()


def _frames(buf: bytes) -> Iterator[Frame]:
    """Frames up to the end of a file, or to where it was cut."""
    try:
        yield from read_frames(buf)
    except WireError as error:
        raise ConfigError("packet", str(error), "a whole pcap or pcapng file") from error


def _bytes_of(text: bytes) -> bytes:
    """Read hex; white space, colons and a leading 0x may stand in it."""
    digits = b"".join(text.split()).replace(b":", b"").removeprefix(b"0x")
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        got = text[:40].decode(errors="replace")
        raise ConfigError("packet", got, "an even number of hex digits, or a capture") from None


def _print(found: Reading) -> None:
    """Print one table for each layer, then the payload or the refusal."""
    console = screen()
    for layer in found.layers:
        table = Table("field", "value", title=type(layer).__name__, title_justify="left")
        for name, value in fields_of(layer).items():
            table.add_row(name, _text(value))
        console.print(table)
    console.print(_end(found))


def _end(found: Reading) -> str:
    """What follows the last layer."""
    if found.refused:
        return f"refused: {found.refused}"
    whose = f" of {found.foreign}" if found.foreign else ""
    return f"payload: {len(found.payload)} bytes{whose}"


def _show_capture(found: list[tuple[Frame, Reading]], *, as_json: bool) -> None:
    """Each packet, its time and where it was seen."""
    if as_json:
        rows = [
            {"packet": n, "at_ns": frame.at_ns, "interface": frame.name, **_as_json(reading)}
            for n, (frame, reading) in enumerate(found, 1)
        ]
        print_json(rows)
        return
    console = screen()
    for n, (frame, reading) in enumerate(found, 1):
        where = f", {frame.name}" if frame.name else ""
        seconds, rest = divmod(frame.at_ns, 10**9)
        console.print(f"packet {n}, {seconds}.{rest:09} s{where}")
        for layer in reading.layers:
            said = ", ".join(f"{k} {_text(v)}" for k, v in fields_of(layer).items())
            console.print(f"  {type(layer).__name__}: {said}")
        console.print(f"  {_end(reading)}")


def _as_json(found: Reading) -> dict[str, Any]:
    """A reading as one JSON value."""
    refused = found.refused and {
        "header": found.refused.header,
        "reason": found.refused.reason,
        "got": str(found.refused.got),
    }
    layers = [{"layer": type(layer).__name__, **fields_of(layer)} for layer in found.layers]
    told = {"layers": layers, "payload": found.payload.hex(), "refused": refused}
    return told | {"foreign": found.foreign or None}


def fields_of(layer: Layer) -> dict[str, Any]:
    """Fields of a layer in readable form; an inner payload is the next layer's matter."""
    shown = {name: _shown(name, value) for name, value in msgspec.structs.asdict(layer).items()}
    match layer:
        case Inner() | Outer():
            shown["src"], shown["dst"] = address_text(layer.src), address_text(layer.dst)
            if isinstance(layer, Inner):
                shown["payload"] = f"{len(layer.payload)} bytes"
        case BierHeader():
            shown["sub_domain"], shown["si"] = layer.sub_domain, layer.si
            shown["bfr_ids"] = _ids(layer.si, layer.bitstring, layer.bsl)
        case OtherBierHeader() | MplsBierHeader():  # the SI is in somebody's BIFT
            shown["bit_positions"] = _ids(0, layer.bitstring, layer.bsl)
        case _:
            pass
    return shown


def _ids(si: int, bits: int, bsl: int) -> list[int]:
    """BFR-ids of a BitString; a set may have bits that no BFR-id has."""
    n_bits = bs.bitstring_bits(bsl)
    return [si * n_bits + i + 1 for i in range(n_bits) if bits >> i & 1]


def _shown(name: str, value: Any) -> Any:
    """One value: BitStrings and numbers that are names in hex, bytes in hex."""
    match value:
        case bytes():
            return value.hex()
        case tuple():
            return [_shown_row(r) if isinstance(r, msgspec.Struct) else r for r in value]
        case int() if name in BITSTRING_FIELDS | HEX_FIELDS:
            return hex(value)
        case _:
            return value


def _shown_row(row: msgspec.Struct) -> dict[str, Any]:
    """One row of FEEDBACK."""
    return {name: _shown(name, value) for name, value in msgspec.structs.asdict(row).items()}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
