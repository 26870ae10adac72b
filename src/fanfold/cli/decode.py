"""`fanfold decode`: bytes of a packet into fields, layer by layer."""

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from fanfold.cli.console import print_json, screen
from fanfold.errors import ConfigError, ExitCode
from fanfold.wire import bitstring as bs
from fanfold.wire.inner import Inner, address_text
from fanfold.wire.packet import Dissection, Layer, dissect

BITSTRING_FIELDS = frozenset({"bitstring", "heard", "done", "lacking"})
HEX_FIELDS = frozenset({"bift_id", "label", "flow", "group"})


def decode(
    packet: Annotated[str, typer.Argument(help="hex of a packet, or - for standard input")],
    *,
    mpls: Annotated[bool, typer.Option("--mpls", help="MPLS form; needs --bsl")] = False,
    bsl: Annotated[int | None, typer.Option(help="bits that the label stands for")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show the fields of a packet from its BIER header on; exit 2 if a layer is refused."""
    if mpls != (bsl is not None):
        raise ConfigError("bsl", bsl, "--mpls and --bsl BITS together, or neither")
    buf = _bytes_of(sys.stdin.read() if packet == "-" else packet)
    found = dissect(buf, bs.bsl_of_bits(bsl) if bsl is not None else 0)
    if as_json:
        print_json(_as_json(found))
    else:
        _print(found)
    if found.refused:
        raise typer.Exit(ExitCode.BAD_INPUT)


def _bytes_of(text: str) -> bytes:
    """Read hex; white space, colons and a leading 0x may stand in it."""
    digits = "".join(text.split()).replace(":", "").removeprefix("0x")
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ConfigError("packet", text[:40], "an even number of hex digits") from None


def _print(found: Dissection) -> None:
    """Print one table for each layer, then the payload or the refusal."""
    console = screen()
    for layer in found.layers:
        table = Table("field", "value", title=type(layer).__name__, title_justify="left")
        table.columns[1].overflow = "fold"
        for name, value in fields_of(layer).items():
            table.add_row(name, str(value))
        console.print(table)
    if found.refused:
        console.print(f"refused: {found.refused}")
    else:
        print(f"payload: {len(found.payload)} bytes")


def _as_json(found: Dissection) -> dict[str, Any]:
    """A dissection as one JSON value."""
    refused = found.refused and {
        "header": found.refused.header,
        "reason": found.refused.reason,
        "got": str(found.refused.got),
    }
    layers = [{"layer": type(layer).__name__, **fields_of(layer)} for layer in found.layers]
    return {"layers": layers, "payload": found.payload.hex(), "refused": refused}


def fields_of(layer: Layer) -> dict[str, Any]:
    """Fields of a layer in readable form; an inner payload is the next layer's matter."""
    shown = {name: _shown(name, value) for name, value in msgspec.structs.asdict(layer).items()}
    if isinstance(layer, Inner):
        shown["src"], shown["dst"] = address_text(layer.src), address_text(layer.dst)
        shown["payload"] = f"{len(layer.payload)} bytes"
    return shown


def _shown(name: str, value: Any) -> Any:
    """One value: BitStrings and numbers that are names in hex, bytes in hex."""
    match value:
        case bytes():
            return value.hex()
        case tuple():
            return [_shown_row(row) for row in value]
        case int() if name in BITSTRING_FIELDS | HEX_FIELDS:
            return hex(value)
        case _:
            return value


def _shown_row(row: msgspec.Struct) -> dict[str, Any]:
    """One row of FEEDBACK."""
    return {name: _shown(name, value) for name, value in msgspec.structs.asdict(row).items()}
