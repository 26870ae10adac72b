"""Keys as commands find them: of a node by its name, of a lab, or where somebody says."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.errors import ConfigError
from fanfold.live.clock import unix_s
from fanfold.live.key_watch import KeyPlace, OwnKey, Stamp, stamp_of
from fanfold.live.lab import Lab
from fanfold.push.gate import Gate
from fanfold.push.placed import Placed
from fanfold.seals.keys import (
    KEY_FILE,
    PLACED_FILE,
    TRUST_FILE,
    PublicKey,
    keys_folder,
    load_keys,
    make_keys,
)
from fanfold.seals.link_keys import LINK_KEY_FILE, load_link_key, make_link_key
from fanfold.seals.trust import (
    Seals,
    Trust,
    TrustRow,
    ending,
    load_trust,
    save_trust,
    trust_at,
)
from fanfold.topo.fabric import Fabric, KeyMode
from fanfold.topo.labels import OPERATOR, operators_of, proven_labels, sign_labels

WhoMay = Callable[[], tuple[PublicKey, ...]]
"""Keys of operators by now."""


class Place(NamedTuple):
    """Where the keys of a node are, and whom it trusts; None: where they are by themselves."""

    folder: Path | None = None
    trusted: Path | None = None

    def of(self, node: str) -> "tuple[Path, Path]":
        """Folder and trust file of a node."""
        folder = self.folder or keys_folder(node)
        return folder, self.trusted or folder / TRUST_FILE


def place_of(folder: str | Path | None, trusted: str | Path | None) -> Place:
    """Where somebody says that keys are."""
    return Place(*(Path(one) if one is not None else None for one in (folder, trusted)))


class Signing(NamedTuple):
    """What a push asks for: to be signed, or sealed as well, with which keys."""

    is_signed: bool = False
    is_sealed: bool = False
    place: Place = Place()


def seals_of(
    signing: Signing,
    source: str,
    lab: Lab | None,
    *,
    has_links: bool = False,
    targets: Collection[str] = (),
    tell: Callable[[str], None] = lambda line: None,
) -> Seals | None:
    """Keys that a push is signed with; of a lab's node its own, unless others are named.

    has_links: links of the source have keys, so a folder may be named for these alone. tell:
    hears of keys of ``targets`` that ended, or will soon.

    Raises:
        ConfigError: there are none, or they were named for nothing.
    """
    if not signing.is_signed and not signing.is_sealed:
        for flag, named in zip(("--keys", "--trusted"), signing.place, strict=True):
            if named is not None and not (has_links and flag == "--keys"):
                raise ConfigError(flag, str(named), "none without --sign or --seal")
        return None
    place = signing.place
    if lab is not None and place.folder is None and (own := lab_keys(lab, source)).is_dir():
        place = Place(own, place.trusted or own.parent / TRUST_FILE)
    folder, trusted = place.of(source)
    keys = load_keys(folder)
    known = trust_at(load_trust(trusted), unix_s())
    for line in ending({node: known[node] for node in targets if node in known}, unix_s()):
        tell(line)
    good = {node: tuple(row for row in rows if not row.is_over) for node, rows in known.items()}
    return Seals(keys, good, signing.is_sealed)


def gate_of(fabric: Fabric, node: str, place: Place) -> Gate:
    """The gate of a receiver: open where there are neither keys nor a trust file.

    Raises:
        ConfigError: what was named is not there, or faulty.
    """
    folder, trusted = place.of(node)
    is_of_links = (folder / LINK_KEY_FILE).exists()  # a folder may hold that key alone
    has_keys = (folder / KEY_FILE).exists() or (place.folder is not None and not is_of_links)
    has_trust = place.trusted is not None or trusted.exists()
    keys = load_keys(folder) if has_keys else None
    trust = trust_at(load_trust(trusted), unix_s()) if has_trust else None
    by_id = {bfr_id: one.name for bfr_id, one in fabric.by_bfr_id.items()}
    placed = Placed(folder / PLACED_FILE if trust is not None else None)
    own = fabric.by_name[node].bfr_id
    gate = Gate(own, keys, trust, lambda i: by_id.get(i, f"BFR-id {i}"), placed)
    gate.labels = proven_labels(fabric, fabric.by_name[node], operators_of(trust or {}))
    return gate


def operators_at(node: str, place: Place) -> WhoMay:
    """Who may give orders to a node, as its trust file has it whenever somebody asks.

    A file that is faulty or gone names nobody.
    """
    _, trusted = place.of(node)
    last: list[tuple[Stamp, Trust]] = []

    def now() -> tuple[PublicKey, ...]:
        stamp = stamp_of(trusted)
        if not last or last[0][0] != stamp:
            try:
                found = load_trust(trusted)
            except ConfigError:
                found = {}
            last[:] = [(stamp, {OPERATOR: found.get(OPERATOR, ())})]
        return operators_of(trust_at(last[0][1], unix_s()))

    return now


def describe_gate(node: str, gate: Gate) -> str:
    """What a receiver says of its gate at its start."""
    if gate.trust is None:
        return f"{node}: open, takes pushes of anybody; `fanfold keys` closes it"
    senders = sorted(
        name for name, rows in gate.trust.items() if any(row.is_sender for row in rows)
    )
    who = ", ".join(senders) or "nobody"
    text = f"{node}: takes signed pushes of {who}"
    if gate.keys is None:
        return text + "; without keys of its own no sender with keys believes it"
    return text + f"; its key is {gate.keys.public.short}"


def lab_keys(lab: Lab, node: str) -> Path:
    """Folder of keys of a node of a lab."""
    return lab.folder / "keys" / node


def link_key_of(
    fabric: Fabric, node: str, folder: Path | None = None, file: Path | None = None
) -> OwnKey | None:
    """Key of a node for its links; None where none of them has keys.

    file: of the fabric, looked at again while the node runs.

    Raises:
        ConfigError: it is not there.
    """
    if not fabric.has_keys(node):
        return None
    place = KeyPlace(folder or keys_folder(node), file)
    return OwnKey(load_link_key(place.folder), place)


def make_link_keys(fabric: Fabric, home: Path, mode: KeyMode) -> Fabric:
    """The fabric with a key for each node, whose secret half is in a folder of its name.

    What is there already is kept. mode: of links that say nothing themselves.
    """
    nodes = tuple(
        msgspec.structs.replace(node, link_key=make_link_key(home / node.name).text)
        for node in fabric.nodes
    )
    return msgspec.structs.replace(fabric, nodes=nodes, link_keys=mode)


def make_lab_links(lab: Lab, fabric: Fabric, *, is_required: bool) -> Fabric:
    """The fabric of a lab whose links have keys, as flag or file ask for; else as it is."""
    mode = fabric.link_keys
    if is_required and mode == "off":
        mode = "required"
    if not is_required and not any(fabric.has_keys(node.name) for node in fabric.nodes):
        return fabric
    return make_link_keys(fabric, lab.folder / "keys", mode)


def make_lab_keys(lab: Lab, fabric: Fabric) -> Fabric:
    """Draw keys for each host of a lab, each trusts all; one for who signs its labels."""
    rows = []
    for node in fabric.nodes:
        if node.role != "host":
            continue
        folder = lab_keys(lab, node.name)
        keys = load_keys(folder) if (folder / KEY_FILE).exists() else make_keys(folder)
        rows.append(TrustRow(node.name, keys.public.text))
    if any(node.labels for node in fabric.nodes):
        folder = lab.folder / "keys" / OPERATOR
        keys = load_keys(folder) if (folder / KEY_FILE).exists() else make_keys(folder)
        rows.append(TrustRow(OPERATOR, keys.public.text, is_sender=False))
        fabric = sign_labels(fabric, keys)
    save_trust(lab.folder / "keys" / TRUST_FILE, rows)
    return fabric
