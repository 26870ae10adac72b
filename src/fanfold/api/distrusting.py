"""Keys that are believed no more: of ends in a trust file, of links in a fabric file.

What runs looks at these files once a second. A fabric file is changed in its place, comments
and all: the word ``revoked`` takes the place of a node's key.
"""

from pathlib import Path

import msgspec
import tomlkit

from fanfold.api.lab_status import no_such_lab
from fanfold.api.site import Site
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.seals.keys import TRUST_FILE, read_public
from fanfold.seals.trust import remove_trust
from fanfold.topo.fabric import REVOKED, Fabric
from fanfold.topo.fabric_file import load_fabric


def distrust(name: str, key: str, path: Path | None, lab: str = "") -> str:
    """Take a node, or one key of it, out of a trust file; what was done, in words.

    path: the file; None: that of a lab.

    Raises:
        ConfigError: no such file, lab or row.
    """
    if path is None:
        path = _running(lab).folder / "keys" / TRUST_FILE
    n_left = remove_trust(path, name, read_public(key, "KEY") if key else None)
    rest = f"{n_left} may push there still" if n_left else "nobody may push there now"
    what = f"{name} by that key" if key else name
    return f"{path}: trusts {what} no more; what runs ends its pushes within a second; {rest}"


def distrust_links(name: str, lab: str, config: Path | None) -> str:
    """Revoke the key of a node's links; what was done, in words.

    Raises:
        ConfigError: no such file, lab or node, its links have no keys, or it is done.
        CheckFailed: a node of the lab did not do it.
    """
    if config is not None:
        _require_key(load_fabric(config), name, str(config))
        _write_revoked(config, name)
        return (
            f"{config}: the key of {name} is revoked; what runs with this file ends its "
            "sessions within a second; copy it to the other machines"
        )
    running = _running(lab)
    fabric = running.fabric()
    _require_key(fabric, name, f"lab {lab}")
    nodes = tuple(
        msgspec.structs.replace(node, link_key=REVOKED, link_key_also="")
        if node.name == name
        else node
        for node in fabric.nodes
    )
    running.keep(msgspec.structs.replace(fabric, nodes=nodes))
    near = fabric.neighbours[name]
    request = {"do": "rekey", "reads": True}
    answers = Site(running, None).order(dict.fromkeys(near, request))
    failed = [f"{node}: {told['error']}" for node, told in answers.items() if "error" in told]
    if failed:
        raise CheckFailed(f"lab {lab}: {'; '.join(failed)}")
    return f"lab {lab}: the key of {name} is revoked at {len(near)} nodes"


def _running(name: str) -> Lab:
    lab = Lab(name)
    if not lab.is_up():
        raise no_such_lab(name)
    return lab


def _require_key(fabric: Fabric, name: str, where: str) -> None:
    if name not in fabric.by_name or not fabric.has_keys(name):
        keyed = ", ".join(each for each in fabric.by_name if fabric.has_keys(each))
        raise ConfigError("NAME", name, keyed or f"a node of {where} whose links have keys")
    if fabric.by_name[name].link_key == REVOKED:
        raise ConfigError("NAME", f"{name}, which is revoked", f"a node with a key in {where}")


def _write_revoked(path: Path, name: str) -> None:
    """Change one node of a fabric file; the file is the old one or the new one, always."""
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    rows: object = document["node"]
    assert isinstance(rows, list)
    for row in rows:
        if row["name"] == name:
            row["link_key"] = REVOKED
            row.pop("link_key_also", None)
    fresh = path.with_name(f"{path.name}.part")
    try:
        fresh.write_text(tomlkit.dumps(document), encoding="utf-8")
        fresh.chmod(path.stat().st_mode & 0o777)
        load_fabric(fresh)
        fresh.replace(path)
    except OSError as error:
        raise EnvironmentLack(f"{path}: {error.strerror}") from error
