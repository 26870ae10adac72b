"""What makes tenants of a fabric sound: a sub-domain each, own hosts, quotas that fit."""

from collections.abc import Iterator

from fanfold.errors import ConfigError
from fanfold.topo.fabric import Fabric, Tenant
from fanfold.topo.field_rules import check_cache, check_name
from fanfold.units import parse_rate
from fanfold.wire.bitstring import MAX_SUB_DOMAIN

LEAST_SLOTS, MOST_SLOTS = 16, 1 << 16
MOST_ARRAY_SLOTS = 1 << 18
MOST_RECEIVERS = 65535
LEAST_RATE = 1_000_000
"""Bits per second; below, the burst alone would be most of what comes through."""


def check_tenants(fabric: Fabric, source: str) -> None:
    """Raise ConfigError for the first rule that is broken, by the key of its field."""
    names: set[str] = set()
    sub_domains = {fabric.sub_domain: "hosts of no tenant"}
    owner: dict[str, str] = {}
    for one in fabric.tenants:
        where = f"{source}: tenants.{one.name}"
        check_name(one.name, f"{source}: tenants")
        if one.name in names:
            raise ConfigError(f"{source}: tenants", one.name, "one tenant of a name")
        names.add(one.name)
        for key, value, low, high in _bounds(one):
            if not low <= value <= high:
                raise ConfigError(f"{where}.{key}", value, f"{low}..{high}")
        taken = sub_domains.setdefault(one.sub_domain, one.name)
        if taken != one.name:
            allowed = f"a number that nobody has; this is that of {taken}"
            raise ConfigError(f"{where}.sub_domain", one.sub_domain, allowed)
        _check_quotas(one, where)
        _check_hosts(fabric, one, where, owner)
        _check_rule(fabric, one, where)


def _bounds(one: Tenant) -> Iterator[tuple[str, int, int, int]]:
    yield "sub_domain", one.sub_domain, 0, MAX_SUB_DOMAIN
    yield "slots", one.slots, LEAST_SLOTS, MOST_SLOTS
    yield "array_slots", one.array_slots, 0, MOST_ARRAY_SLOTS
    yield "receivers", one.receivers, 0, MOST_RECEIVERS


def _check_quotas(one: Tenant, where: str) -> None:
    if one.slots & (one.slots - 1):
        raise ConfigError(f"{where}.slots", one.slots, "a power of two")
    if one.cache:
        check_cache(one.cache, f"{where}.cache")
    if one.rate and parse_rate(one.rate, f"{where}.rate") < LEAST_RATE:
        raise ConfigError(f"{where}.rate", one.rate, "1Mbps and above")


def _check_rule(fabric: Fabric, one: Tenant, where: str) -> None:
    """A tenant whose packets keep to nodes of a label has hosts there only."""
    if not one.only_through:
        return
    key, _, value = one.only_through.partition("=")
    if not key or not value:
        raise ConfigError(f"{where}.only_through", one.only_through, "KEY=VALUE")
    for i, name in enumerate(one.hosts):
        found = dict(fabric.by_name[name].labels).get(key)
        if found != value:
            got = f"{name} with {f'{key}={found}' if found else f'no {key}'}"
            raise ConfigError(f"{where}.hosts[{i}]", got, f"hosts of {one.only_through}")


def _check_hosts(fabric: Fabric, one: Tenant, where: str, owner: dict[str, str]) -> None:
    if not one.hosts:
        raise ConfigError(f"{where}.hosts", "none", "at least one host")
    for i, name in enumerate(one.hosts):
        node = fabric.by_name.get(name)
        if node is None or node.role != "host":
            raise ConfigError(
                f"{where}.hosts[{i}]", name, "the name of a [[node]] of role host"
            )
        first = owner.setdefault(name, one.name)
        if first != one.name or name in one.hosts[:i]:
            allowed = f"a host that no tenant has yet; this one is of {first}"
            raise ConfigError(f"{where}.hosts[{i}]", name, allowed)
