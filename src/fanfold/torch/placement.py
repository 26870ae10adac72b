"""Which fabric a rank is on, and which host of it the rank is.

The fabric: ``pg_options=FanfoldOptions(fabric=...)``; or FANFOLD_FABRIC, a TOML file; or
FANFOLD_LAB, a lab of this machine; or what another rank of the group found by these, which it
says through the group's store. The host: ``FanfoldOptions(host=...)``; or FANFOLD_HOST; or
FANFOLD_HOSTS, a node list by global rank; or, of the hosts whose addresses this machine has,
the only one, or the one at LOCAL_RANK in the order of BFR-ids. Nobody is put on a loopback
address of another machine: ranks that found different fabrics are refused.

Ranks that are late: ``FanfoldOptions(stragglers=..., patience_ms=...)``, or FANFOLD_STRAGGLERS
and FANFOLD_PATIENCE_MS; the root of sums: ``FanfoldOptions(root=...)`` or FANFOLD_ROOT; what
has an exponent of its own in a sum: ``FanfoldOptions(numbers=...)`` or FANFOLD_NUMBERS; a
secret of all ranks, by which they find what a BFR added wrongly: ``FanfoldOptions(check=...)``
or FANFOLD_CHECK; planes that large arrays go over: ``FanfoldOptions(planes=...)`` or
FANFOLD_PLANES.
"""

import os
import socket
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.errors import ConfigError
from fanfold.group.rules import (
    BY_VALUE,
    MAX_PATIENCE_MS,
    PATIENCE_PS,
    POLICIES,
    PS_PER_MS,
    WAIT,
    Rules,
    check_rules,
)
from fanfold.group.rules import NUMBERS as NUMBER_FORMATS
from fanfold.ids import expand_nodes
from fanfold.live.lab import Lab
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric

FABRIC, LAB = "FANFOLD_FABRIC", "FANFOLD_LAB"
HOST, HOSTS = "FANFOLD_HOST", "FANFOLD_HOSTS"
STRAGGLERS, PATIENCE, ROOT = "FANFOLD_STRAGGLERS", "FANFOLD_PATIENCE_MS", "FANFOLD_ROOT"
NUMBERS, CHECK, PLANES = "FANFOLD_NUMBERS", "FANFOLD_CHECK", "FANFOLD_PLANES"
LEAST_SECRET = 16
WHERE = f"{FABRIC}=FILE.toml, {LAB}=NAME or pg_options=FanfoldOptions(...) on one rank or more"

MAX_DIGITS = 5
"""Of a patience in milliseconds."""


class FanfoldOptions(NamedTuple):
    """``pg_options`` of a process group; what is empty is looked for in the environment."""

    fabric: Fabric | Path | str | None = None
    host: str = ""
    stragglers: str = ""
    patience_ms: int = 0
    root: str = ""
    numbers: str = ""
    check: str = ""
    planes: str = ""

    def __repr__(self) -> str:
        """Options as they were given, but for the secret."""
        shown = self._asdict() | ({"check": "..."} if self.check else {})
        said = ", ".join(f"{key}={value!r}" for key, value in shown.items())
        return f"FanfoldOptions({said})"


def find_secret(own: FanfoldOptions | None, env: Mapping[str, str]) -> bytes:
    """The secret that sums are checked by; empty: they are not.

    Raises:
        ConfigError: it is too short to be one.
    """
    text = (own.check if own else "") or env.get(CHECK, "")
    if text and len(text) < LEAST_SECRET:
        got = f"{len(text)} characters"
        raise ConfigError(CHECK, got, f"{LEAST_SECRET} or more, the same on all ranks")
    return text.encode()


def find_fabric(own: FanfoldOptions | None, env: Mapping[str, str]) -> Fabric | None:
    """The fabric that this process was told of, None where it was told of none.

    Raises:
        ConfigError: a file that is no fabric. EnvironmentLack: a lab that is not up.
    """
    if own and own.fabric is not None:
        return own.fabric if isinstance(own.fabric, Fabric) else load_fabric(Path(own.fabric))
    if env.get(FABRIC):
        return load_fabric(Path(env[FABRIC]))
    return Lab(env[LAB]).fabric() if env.get(LAB) else None


def find_host(
    fabric: Fabric, own: FanfoldOptions | None, env: Mapping[str, str], rank: int
) -> str:
    """Name of the host that a rank is.

    Args:
        rank: global.

    Raises:
        ConfigError: no such host, or this machine has too few.
    """
    hosts = [node.name for node in fabric.by_bfr_id.values() if node.role == "host"]
    named = (own.host if own else "") or env.get(HOST, "")
    if named:
        if named not in hosts:
            raise ConfigError(HOST, named, f"a host of the fabric: {', '.join(hosts[:8])}")
        return named
    if env.get(HOSTS):
        listed = expand_nodes(env[HOSTS], hosts, HOSTS, may_repeat=True)
        if rank >= len(listed):
            raise ConfigError(HOSTS, env[HOSTS], f"a host for each rank, also for {rank}")
        return listed[rank]
    mine = [name for name in hosts if _is_mine(fabric.by_name[name].address)]
    place = int(local) if (local := env.get("LOCAL_RANK") or str(rank)).isdecimal() else -1
    if place < 0:
        raise ConfigError("LOCAL_RANK", local, "a whole number, 0 or more")
    if len(mine) == 1:
        return mine[0]  # of all ranks of this machine
    if place >= len(mine):
        found = f"{len(mine)} of {len(hosts)} hosts have an address of this machine"
        raise ConfigError(HOST, found, f"one for each local rank, also for {place}")
    return mine[place]


def find_rules(own: FanfoldOptions | None, env: Mapping[str, str]) -> Rules:
    """What is done about ranks that are late, and how floats are added.

    Raises:
        ConfigError: no such policy or number format, or no number of milliseconds that packets
            can say.
    """
    stragglers = (own.stragglers if own else "") or env.get(STRAGGLERS) or WAIT
    if stragglers not in POLICIES:
        raise ConfigError(STRAGGLERS, stragglers, ", ".join(POLICIES))
    text = (str(own.patience_ms) if own and own.patience_ms else "") or env.get(PATIENCE, "")
    if text and not (text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS):
        raise ConfigError(PATIENCE, text, f"1..{MAX_PATIENCE_MS}")
    numbers = (own.numbers if own else "") or env.get(NUMBERS) or BY_VALUE
    if numbers not in NUMBER_FORMATS:
        raise ConfigError(NUMBERS, numbers, ", ".join(NUMBER_FORMATS))
    patience_ps = int(text) * PS_PER_MS if text else PATIENCE_PS
    return check_rules(Rules(stragglers, patience_ps, numbers))


def find_root(own: FanfoldOptions | None, env: Mapping[str, str]) -> str:
    """Host or switch that is the root of sums; empty: a BFR near rank 0 is."""
    return (own.root if own else "") or env.get(ROOT, "")


def find_planes(own: FanfoldOptions | None, env: Mapping[str, str]) -> str:
    """Planes that large arrays go over: auto, or numbers; empty: one, by the group's number."""
    return "".join(((own.planes if own else "") or env.get(PLANES, "")).split())


def environment() -> Mapping[str, str]:
    """What torchrun and the operator set."""
    return os.environ


def digest_of(fabric: Fabric) -> str:
    """The same for equal fabrics only."""
    return blake2b(msgspec.json.encode(fabric), digest_size=16).hexdigest()


def _is_mine(address: str) -> bool:
    """Whether a socket of this machine can have an address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
