"""`fanfold keys`: what a node signs with, and whom it trusts."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from fanfold.cli.console import print_json, say
from fanfold.cli.flag_groups import taken_apart
from fanfold.cli.operator import OperatorKeys, site_of
from fanfold.errors import CheckFailed, ConfigError
from fanfold.seals.keys import (
    KEY_FILE,
    NEXT_FILE,
    TRUST_FILE,
    keys_folder,
    load_keys,
    make_keys,
    use_next,
)
from fanfold.seals.link_keys import (
    NEXT_LINK_KEY_FILE,
    load_link_key,
    make_link_key,
    use_next_link_key,
)
from fanfold.seals.trust import TrustRow, add_trust, load_trust
from fanfold.units import PS_PER_SECOND, parse_duration

OPERATOR = "operator"
"""Whose keys sign labels; topo/labels.py."""
app = typer.Typer(
    help="Keys of nodes: who signs pushes, and whom receivers trust.", no_args_is_help=True
)
Node = Annotated[str, typer.Option("--node", help="whose keys: a node of the fabric")]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="folder of keys  [default: one for each --node]", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
TrustFile = Annotated[
    Path | None,
    typer.Option(help="trust file  [default: in the folder]", show_default=False),
]


class Distrusting(NamedTuple):
    """Who trusts it no more."""

    node: Node = ""
    keys: Keys = None
    trusted: TrustFile = None
    links: Annotated[bool, typer.Option("--links", help="its key for links")] = False
    config: Annotated[
        Path | None,
        typer.Option("--config", help="of --links: fabric TOML, changed in its place"),
    ] = None
    lab: Annotated[str, typer.Option("--lab", help="of a running lab, at all nodes")] = ""


@app.command()
def init(node: Node = "", keys: Keys = None, as_json: Json = False) -> None:
    """Draw keys for a node, and print the public one."""
    folder = folder_of(node, keys)
    made = make_keys(folder)
    if as_json:
        print_json({"folder": str(folder), "key": made.public.text})
        return
    say(made.public.text)
    say(f"keys in {folder}; others trust it by: fanfold keys trust {node or 'NAME'} KEY")


@app.command()
def show(node: Node = "", keys: Keys = None, as_json: Json = False) -> None:
    """Print the public key of a node; with --json also whom it trusts."""
    folder = folder_of(node, keys)
    public = load_keys(folder).public.text
    if not as_json:
        say(public)
        return
    trusted = load_trust(folder / TRUST_FILE) if (folder / TRUST_FILE).exists() else {}
    rows = [
        {
            "node": row.node,
            "key": row.key.text,
            "prefix": row.prefix,
            "max_bytes": row.max_bytes,
            "label": row.label,
            "is_sender": row.is_sender,
            "until": row.until,
        }
        for each in trusted.values()
        for row in each
    ]
    print_json({"folder": str(folder), "key": public, "trusted": rows})


@app.command()
def trust(
    name: Annotated[str, typer.Argument(help="who is trusted: a node of the fabric")],
    key: Annotated[str, typer.Argument(help="its public key, or a file that holds it")],
    node: Node = "",
    keys: Keys = None,
    trusted: TrustFile = None,
    prefix: Annotated[str, typer.Option(help="it may write below this path only")] = "",
    max_bytes: Annotated[str, typer.Option(help="of its pushes at once, such as 200GB")] = "",
    label: Annotated[str, typer.Option(help="said in the log beside its name")] = "",
    sender: Annotated[
        bool, typer.Option(help="take its pushes; its words are believed in any case")
    ] = True,
    until: Annotated[
        str, typer.Option(help="its last day, UTC, or a time, such as 2027-01-31")
    ] = "",
) -> None:
    """Let a node trust the key of another one: take its pushes, believe its words."""
    path = trusted or folder_of(node, keys) / TRUST_FILE
    row = TrustRow(name, _text_of(key), prefix, max_bytes, label, sender, until)
    is_new = add_trust(path, row)
    say(f"{path}: {'trusts' if is_new else 'trusted already'} {name}")


@app.command()
@taken_apart
def distrust(
    name: Annotated[str, typer.Argument(help="who is trusted no more")],
    key: Annotated[
        str, typer.Argument(help="one of its keys, or a file of it  [default: all]")
    ] = "",
    *,
    whose: Distrusting,
) -> None:
    """Let a node trust another one no more; with --links, nobody has a session with it."""
    from fanfold.api import distrusting  # noqa: PLC0415 - others need no fabric

    where = [text for text in (whose.lab, str(whose.config or "")) if text]
    if whose.links:
        if len(where) != 1 or key:
            raise ConfigError("--links", key or "nothing", "beside it --config FILE or --lab")
        say(distrusting.distrust_links(name, whose.lab, whose.config))
        return
    if whose.config is not None:
        raise ConfigError("--config", str(whose.config), "none without --links")
    path = whose.trusted
    if path is None and not whose.lab:
        path = folder_of(whose.node, whose.keys) / TRUST_FILE
    say(distrusting.distrust(name, _text_of(key) if key else "", path, whose.lab))


@app.command()
def rotate(
    node: Node = "",
    keys: Keys = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="use the new keys; the old ones are gone")
    ] = False,
    links: Annotated[bool, typer.Option("--links", help="the key for its links")] = False,
    lab: Annotated[
        str, typer.Option("--lab", help="all steps for the links of a node of a running lab")
    ] = "",
    overlap: Annotated[str, typer.Option(help="how long both keys count in a lab")] = "10s",
) -> None:
    """Draw the next keys of a node, or with --finish, when others trust them, use them."""
    if lab:
        _rotate_live(lab, node, overlap)
        return
    folder = folder_of(node, keys)
    if links:
        _rotate_links(folder, node, finish=finish)
        return
    if finish:
        say(f"{use_next(folder).public.text}")
        say(f"in use in {folder}; a receiver that runs takes it within a second")
        return
    load_keys(folder, KEY_FILE)
    say(make_keys(folder, NEXT_FILE).public.text)
    say("let others trust it beside the old one, then: fanfold keys rotate --finish")


def _rotate_live(lab: str, node: str, overlap: str) -> None:
    from fanfold.api.rotating import rotate_lab  # noqa: PLC0415 - others need no lab

    overlap_s = parse_duration(overlap, "--overlap") / PS_PER_SECOND
    new = rotate_lab(lab, node, overlap_s, say)
    say(f"lab {lab}: {node} has {new}; the old key is refused")


def _rotate_links(folder: Path, node: str, *, finish: bool) -> None:
    if finish:
        say(use_next_link_key(folder).text)
        say("what runs takes it within a second where the fabric file names it")
        return
    load_link_key(folder)
    say(make_link_key(folder, NEXT_LINK_KEY_FILE).text)
    say(
        f"link_key_also of {node or 'NODE'} in every fabric file; then: rotate --links --finish"
    )


@app.command()
def links(
    config: Annotated[Path, typer.Argument(help="fabric TOML")],
    into: Annotated[Path, typer.Option(help="a folder of secret keys, one for each node")],
    out: Annotated[Path, typer.Option(help="fabric TOML with the public keys")],
    mode: Annotated[
        str, typer.Option(help="required, or on: packets without keys are taken too")
    ] = "required",
) -> None:
    """Draw keys for the links of a fabric: each node's own folder, and a file for all."""
    from fanfold.api.keys import make_link_keys  # noqa: PLC0415 - others need no fabric
    from fanfold.topo.fabric import KeyMode  # noqa: PLC0415 - as above
    from fanfold.topo.fabric_file import load_fabric, save_fabric  # noqa: PLC0415 - as above

    modes: dict[str, KeyMode] = {"required": "required", "on": "on"}
    if mode not in modes:
        raise ConfigError("--mode", mode, ", ".join(modes))
    fabric = make_link_keys(load_fabric(config), into, modes[mode])
    save_fabric(fabric, out)
    say(f"{out}: {len(fabric.nodes)} nodes with keys for their links, {mode}")
    least = f"{fabric.line_mtu()} bytes, mtu and the trailer of a packet"
    say(f"links have to carry {least}; where they do not, make mtu smaller")
    say(f"{into}/NODE is for NODE alone: there it is {keys_folder('NODE')}")


@app.command()
def rekey(
    lab: Annotated[str, typer.Option("--lab", "--name", help="which lab")] = "lab",
    revoke: Annotated[
        str, typer.Option(help="a node whose neighbours are to take and send it nothing more")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option(help="fabric TOML of several machines, with --operator"),
    ] = None,
    operator: OperatorKeys = None,
) -> None:
    """Give links of a lab or a fabric new session keys, while pushes go on."""
    from fanfold.api import rekeying  # noqa: PLC0415 - others need no lab

    if config is None:
        if operator is not None:
            raise ConfigError("--operator", str(operator), "none without --config")
        where, n = f"lab {lab}", rekeying.rekey_lab(lab, revoke)
    else:
        where, n = str(config), rekeying.rekey(site_of(config, operator), str(config), revoke)
    what = f"{revoke} is revoked at" if revoke else "new keys for the links of"
    say(f"{where}: {what} {n} nodes")


@app.command()
def label(
    config: Annotated[Path, typer.Argument(help="fabric TOML whose nodes have labels")],
    out: Annotated[Path, typer.Option(help="fabric TOML with the labels signed")],
    node: Node = OPERATOR,
    keys: Keys = None,
) -> None:
    """Sign the labels of nodes as the operator of a fabric."""
    from fanfold.topo.fabric_file import load_fabric, save_fabric  # noqa: PLC0415 - as above
    from fanfold.topo.labels import sign_labels  # noqa: PLC0415 - as above

    fabric = sign_labels(load_fabric(config), load_keys(folder_of(node, keys)))
    save_fabric(fabric, out)
    n = sum(bool(one.labels) for one in fabric.nodes)
    say(f"{out}: labels of {n} nodes, signed")


@app.command("check-labels")
def check_labels(
    config: Annotated[Path, typer.Argument(help="fabric TOML")],
    key: Annotated[str, typer.Argument(help="the operator's public key, or a file of it")],
) -> None:
    """See that all labels of a fabric are signed by its operator."""
    from fanfold.seals.keys import read_public  # noqa: PLC0415 - as above
    from fanfold.topo import labels  # noqa: PLC0415 - as above
    from fanfold.topo.fabric_file import load_fabric  # noqa: PLC0415 - as above

    n = labels.check_labels(load_fabric(config), [read_public(_text_of(key), "KEY")])
    say(f"{config}: labels of {n} nodes, signed by {key if len(key) < 100 else 'KEY'}")


@app.command()
def software() -> None:
    """Print the digest of the program that runs here, for lists of `push --attest`."""
    from fanfold.push.attesting import software_digest  # noqa: PLC0415 - as above

    say(software_digest().hex())


@app.command("verify-receipt")
def verify_receipt(
    files: Annotated[
        list[Path], typer.Argument(help="receipts of `push --receipts`, or its folder")
    ],
    node: Node = "",
    keys: Keys = None,
    trusted: TrustFile = None,
    of: Annotated[
        Path | None,
        typer.Option("--of", help="the push that they are to be of: what its --json printed"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check receipts without a network: whose they are, and that nothing was changed."""
    from fanfold.api.receipts import check_receipts  # noqa: PLC0415 - others read none

    rows = check_receipts(files, trusted or folder_of(node, keys) / TRUST_FILE, of)
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        say(f"{row['file']}: {row['said']}")
    wrong = [row for row in rows if not row["is_good"]]
    if wrong:
        raise CheckFailed(f"{len(wrong)} of {len(rows)} receipts prove nothing")


def folder_of(node: str, keys: Path | None) -> Path:
    """Folder of keys that was named, or that of a node.

    Raises:
        ConfigError: neither was.
    """
    if keys is not None:
        return keys
    if not node or "/" in node or node.startswith("."):
        raise ConfigError("--node", node, "a node of the fabric, or a folder by --keys")
    return keys_folder(node)


def _text_of(key: str) -> str:
    """A key that was given, or what stands in the file that was."""
    path = Path(key)
    try:
        if len(key) < 256 and path.is_file():
            return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("KEY", key, "a public key, or a file that holds one") from error
    return key
