"""Tenants of a lab as flags have them: ``red:h1-3:rate=100Mbps,slots=256``.

Sub-domains are dealt in the order of the flags, the least ones that nobody has.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import fields

from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.nearest import one_of
from fanfold.topo.fabric import Fabric, Tenant
from fanfold.topo.fabric_rules import check_fabric
from fanfold.wire.bitstring import MAX_SUB_DOMAIN

FLAG = "--tenant"
FORM = "NAME:HOSTS, such as red:h1-3, or NAME:HOSTS:KEY=VALUE,.."
_QUOTAS = {field.name: field.type for field in fields(Tenant)[3:]}
_MOST_DIGITS = 9


def with_tenants(fabric: Fabric, texts: Iterable[str]) -> Fabric:
    """A fabric with more tenants.

    Raises:
        ConfigError: a text of another form, or a tenant that the fabric cannot have.
    """
    hosts = [node.name for node in fabric.nodes if node.role == "host"]
    taken = {fabric.sub_domain, *(one.sub_domain for one in fabric.tenants)}
    free = iter([i for i in range(1, MAX_SUB_DOMAIN + 1) if i not in taken])
    made = tuple(_parse(text, hosts, free) for text in texts)
    if not made:
        return fabric
    fabric = msgspec.structs.replace(fabric, tenants=(*fabric.tenants, *made))
    check_fabric(fabric, FLAG)
    return fabric


def _parse(text: str, hosts: list[str], free: Iterator[int]) -> Tenant:
    name, _, rest = text.partition(":")
    named, _, quotas = rest.partition(":")
    sub_domain = next(free, 0)
    if not name or not named or not sub_domain:
        raise ConfigError(FLAG, text, FORM)
    one = Tenant(name, sub_domain, expand_nodes(named, hosts, FLAG))
    values = dict(_quota(part) for part in quotas.split(",") if quotas)
    return msgspec.structs.replace(one, **values)


def _quota(part: str) -> tuple[str, int | str]:
    key, _, value = part.partition("=")
    if key not in _QUOTAS:
        raise ConfigError(FLAG, key, one_of(key, _QUOTAS))
    if _QUOTAS[key] is not int:
        return key, value
    if not (value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS):
        raise ConfigError(FLAG, part, f"{key} with a whole number")
    return key, int(value)
