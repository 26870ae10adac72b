"""New session keys for the links of a running lab, and none any more for who is revoked."""

from typing import Any

from fanfold.api.lab_status import no_such_lab
from fanfold.api.site import Site
from fanfold.errors import CheckFailed, ConfigError
from fanfold.live.lab import Lab


def rekey_lab(name: str, revoke: str = "") -> int:
    """As ``rekey``, at the nodes of a running lab."""
    lab = Lab(name)
    if not lab.is_up():
        raise no_such_lab(name)
    return rekey(Site(lab, None), f"lab {name}", revoke)


def rekey(site: Site, what: str, revoke: str = "") -> int:
    """Ask nodes for new sessions, or the neighbours of one for none with it; how many nodes.

    What is revoked is so until its neighbours start again: then the fabric file counts.

    Raises:
        ConfigError: no such node, or its links have no keys. CheckFailed: some node did not do
            it.
    """
    fabric = site.fabric
    if revoke and revoke not in fabric.by_name:
        raise ConfigError("--revoke", revoke, ", ".join(fabric.by_name))
    nodes = fabric.neighbours[revoke] if revoke else tuple(fabric.by_name)
    keyed = [node for node in nodes if fabric.has_keys(node)]
    if not keyed:
        allowed = "links with keys, `lab up --link-keys` or `fabric init`"
        raise ConfigError(what, "none that has keys", allowed)
    request: dict[str, Any] = {"do": "rekey", "revoked": [revoke] if revoke else []}
    answers = site.order(dict.fromkeys(keyed, request))
    failed = [
        f"{node}: {answer['error']}" for node, answer in answers.items() if "error" in answer
    ]
    if failed:
        raise CheckFailed(f"{what}: {'; '.join(failed)}")
    return len(keyed)
