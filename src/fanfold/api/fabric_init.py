"""A fabric of several machines with keys, as folders: one to carry to each machine.

    rack/rack.toml           the fabric with all public keys; written last: the folder is whole
    rack/h0/                 for h0 alone: its secret keys, whom it trusts, the fabric
    rack/operator/           for who runs the fabric: signs labels, changes nodes that run

What is there is never written over. A folder without its fabric file is of a start that was
broken off, and is completed; one with it stays as it is.
"""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.api.keys import make_link_keys
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.seals.keys import (
    KEY_FILE,
    PRIVATE_FOLDER,
    TRUST_FILE,
    KeyPair,
    load_keys,
    make_keys,
)
from fanfold.seals.trust import TrustRow, load_trust, save_trust
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.labels import OPERATOR, sign_labels


class MadeFabric(NamedTuple):
    """What is there now.

    file: of the fabric. is_new: it was written just now. operator: folder of its keys; None:
    an open fabric.
    """

    fabric: Fabric
    folder: Path
    file: Path
    is_new: bool
    operator: Path | None


def init_fabric(
    fabric: Fabric, folder: Path, *, senders: Collection[str] = (), is_open: bool = False
) -> MadeFabric:
    """Write the folders of a fabric.

    Args:
        fabric: without keys. folder: for it alone. senders: hosts whose pushes are taken; all
            of a tenant where empty. is_open: nobody has keys.

    Raises:
        ConfigError: something else is there. EnvironmentLack: it may not be written.
    """
    own = "all" if is_open else "none"
    fabric = msgspec.structs.replace(
        fabric, open=own, link_keys="off" if is_open else "required"
    )
    if OPERATOR in fabric.by_name:
        raise ConfigError("node", OPERATOR, "another name: it is that of who runs the fabric")
    file = folder / f"{fabric.name}.toml"
    there = _found(fabric, folder, file)
    operator = None if is_open else folder / OPERATOR
    if there is not None:
        return MadeFabric(there, folder, file, False, operator)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        if not is_open:
            fabric = _fill(fabric, folder, senders)
        _write(fabric, file)
    except OSError as error:
        raise EnvironmentLack(f"{error.filename or folder}: {error.strerror}") from error
    return MadeFabric(fabric, folder, file, True, operator)


def _found(fabric: Fabric, folder: Path, file: Path) -> Fabric | None:
    """The same fabric with its keys, where it was written before; None: the rest is to be.

    Raises:
        ConfigError: another fabric, or other things.
    """
    if not folder.exists():
        return None
    allowed = "a folder that is not there, or one that a start of the same fabric left"
    if not folder.is_dir():
        raise ConfigError("FOLDER", f"{folder}: a file", allowed)
    if file.exists():
        there = load_fabric(file)
        if _bare(there) != _bare(fabric):
            raise ConfigError("FOLDER", f"{file}: another fabric", allowed)
        return there
    known = {OPERATOR, *(fabric.by_name if fabric.open == "none" else ())}
    other = sorted(path.name for path in folder.iterdir() if path.name not in known)
    if other:
        raise ConfigError("FOLDER", f"{folder}: has {other[0]}", allowed)
    return None


def _bare(fabric: Fabric) -> Fabric:
    """It without keys, and without signatures of labels."""
    bare = {"link_key": "", "link_key_also": "", "label_seal": ""}
    nodes = tuple(msgspec.structs.replace(node, **bare) for node in fabric.nodes)
    return msgspec.structs.replace(fabric, nodes=nodes)


def _fill(fabric: Fabric, folder: Path, senders: Collection[str]) -> Fabric:
    """Keys, trust files and copies of the fabric; the fabric with its public keys."""
    fabric = make_link_keys(fabric, folder, "required")
    check_fabric(fabric, fabric.name)
    operator = _keys(folder / OPERATOR)
    if any(node.labels for node in fabric.nodes):
        fabric = sign_labels(fabric, operator)
    hosts = {
        node.name: _keys(folder / node.name).public
        for node in fabric.nodes
        if node.role == "host"
    }
    last = TrustRow(OPERATOR, operator.public.text, is_sender=False)
    for node in fabric.nodes:
        near = fabric.peers_of(node.name) if node.role == "host" else ()
        rows = [
            TrustRow(to, hosts[to].text, is_sender=not senders or to in senders)
            for to in near
            if to != node.name
        ]
        _write_trust(folder / node.name / TRUST_FILE, [*rows, last])
        _write(fabric, folder / node.name / f"{fabric.name}.toml")
    return fabric


def _keys(folder: Path) -> KeyPair:
    """Keys of a folder, drawn where it has none."""
    return load_keys(folder) if (folder / KEY_FILE).exists() else make_keys(folder)


def _write_trust(path: Path, rows: list[TrustRow]) -> None:
    if not path.exists():
        save_trust(path, rows)
        return
    known = [one for each in load_trust(path).values() for one in each]
    there = [(one.node, one.key.text, one.is_sender) for one in known]
    _require_same(there == [(one.node, one.key, one.is_sender) for one in rows], path)


def _write(fabric: Fabric, path: Path) -> None:
    """Write a fabric file, whole or not at all."""
    if path.exists():
        _require_same(load_fabric(path) == fabric, path)
        return
    fresh = path.with_suffix(".toml.part")
    save_fabric(fabric, fresh)
    fresh.replace(path)


def _require_same(is_same: bool, path: Path) -> None:
    if not is_same:
        allowed = "what this start would write; remove it to have it written anew"
        raise ConfigError("FOLDER", f"{path}: has other things", allowed)
