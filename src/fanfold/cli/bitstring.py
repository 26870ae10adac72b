"""`fanfold bitstring`: BFR-ids to BitStrings and back."""

from typing import Annotated, Any

import typer
from rich.table import Table

from fanfold.cli.console import print_json, screen
from fanfold.cli.verb import refuse
from fanfold.errors import ConfigError
from fanfold.ids import MAX_BFR_ID
from fanfold.wire import bier
from fanfold.wire import bitstring as bs
from fanfold.wire.bier import BierHeader

OF_HEADERS = ("sub_domain", "proto", "bfir_id", "ttl", "entropy")


def bitstring(
    ctx: typer.Context,
    ids: Annotated[str | None, typer.Argument(help="BFR-ids, such as 1,3-5,300")] = None,
    *,
    bsl: Annotated[int, typer.Option(help="bits of a BitString")] = 256,
    sub_domain: Annotated[int, typer.Option(help="sub-domain, 0..255")] = 0,
    proto: Annotated[int, typer.Option(help="what BIER carries; 4 is IPv4")] = 4,
    bfir_id: Annotated[int, typer.Option(help="BFR-id of the BFIR")] = 1,
    ttl: Annotated[int, typer.Option(help="hops")] = 64,
    entropy: Annotated[int, typer.Option(help="path choice, 20 bits")] = 0,
    hex_: Annotated[str | None, typer.Option("--hex", help="BitString to read")] = None,
    si: Annotated[int, typer.Option(help="set identifier of --hex")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show the BIER headers that reach BFR-ids, or the BFR-ids of a BitString."""
    code = bs.bsl_of_bits(bsl)
    if (ids is None) == (hex_ is None):
        got = "nothing" if ids is None else f"{ids} and --hex {hex_}"
        raise ConfigError("IDS", got, "either IDS or --hex HEX")
    if hex_ is not None:
        refuse(ctx, OF_HEADERS, "none beside --hex, which has no header")
        _print_ids(bs.ids_of(si, _bits_of(hex_, code), code), as_json)
        return
    refuse(ctx, ("si",), "none beside IDS, which say their own")
    _check("--proto", proto, 0, 63)
    _check("--bfir-id", bfir_id, 1, MAX_BFR_ID)
    _check("--ttl", ttl, 0, 255)
    _check("--entropy", entropy, 0, (1 << 20) - 1)
    sets = bs.bitstrings_of(bs.parse_ids(ids or ""), code)
    headers = [
        BierHeader(
            bift_id=bs.bift_id(code, sub_domain, set_id),
            ttl=ttl,
            bfir_id=bfir_id,
            bitstring=bits,
            entropy=entropy,
            proto=proto,
        )
        for set_id, bits in sets.items()
    ]
    _print_headers(headers, as_json)


def _bits_of(text: str, code: int) -> int:
    """Read a BitString in hex; leading zeros may be left out."""
    digits = text.strip().lower().removeprefix("0x").replace(" ", "")
    n_bits = bs.bitstring_bits(code)
    try:
        bits = int(digits, 16) if "_" not in digits else -1
    except ValueError:
        bits = -1
    if not 0 <= bits < 1 << n_bits:
        raise ConfigError("--hex", text, f"hex digits, at most {n_bits} bits (see --bsl)")
    return bits


def _check(field: str, value: int, low: int, high: int) -> None:
    """Refuse an option outside its range."""
    if not low <= value <= high:
        raise ConfigError(field, value, f"{low}..{high}")


def _print_ids(ids: tuple[int, ...], as_json: bool) -> None:
    """Print BFR-ids."""
    if as_json:
        print_json({"ids": ids})
    else:
        print(",".join(map(str, ids)))


def _print_headers(headers: list[BierHeader], as_json: bool) -> None:
    """Print one row for each SI."""
    rows = [_row(header) for header in headers]
    if as_json:
        print_json(rows)
        return
    table = Table("SI", "BIFT-id", "BFR-ids", "BitString", "header", show_lines=True)
    for column in table.columns[2:]:
        column.overflow = "fold"
    for row in rows:
        ids = ",".join(map(str, row["ids"]))
        table.add_row(str(row["si"]), row["bift_id"], ids, row["bitstring"], row["header"])
    screen().print(table)


def _row(header: BierHeader) -> dict[str, Any]:
    """One header as it is printed."""
    return {
        "si": header.si,
        "bift_id": f"0x{header.bift_id:05x}",
        "ids": bs.ids_of(header.si, header.bitstring, header.bsl),
        "bitstring": bs.to_bytes(header.bitstring, header.bsl).hex(),
        "header": bier.encode(header).hex(),
    }
