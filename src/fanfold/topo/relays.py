"""Which host of a site passes a push on to the others there, chosen by a cost map.

Where lines between sites carry no BIER, or a site's last mile is to have a control loop of its
own, one host of each site gets the data and sends it to the rest: the proxy at the border
between two control loops, as topology information for applications would choose it (ALTO,
RFC 7285, and RFC 9439 for bandwidth).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.units import format_rate

AUTO, NONE = "auto", "none"
FLAG = "--relay"
LEAST_TARGETS = 2
Between = Mapping[str, Mapping[str, int]]
"""From a host, to a host, by name; who cannot be reached is not in it."""


class Site(NamedTuple):
    """Receivers of a push that stand together. name: of the site. hosts: in order."""

    name: str
    hosts: tuple[str, ...]


class Choice(NamedTuple):
    """Who passes on at a site, and why. ranked: all that could, best first."""

    site: Site
    relay: str
    reason: str
    ranked: tuple[str, ...]


def sites_of(groups: Mapping[str, str], targets: Sequence[str], source: str) -> list[Site]:
    """Receivers by site, but for those at the source's own.

    Args:
        groups: site by host; who is in none stands at no site.
    """
    members: dict[str, list[str]] = {}
    for host in targets:
        site = groups.get(host, "")
        if site and site != groups.get(source, ""):
            members.setdefault(site, []).append(host)
    return [Site(name, tuple(hosts)) for name, hosts in members.items()]


def choose(
    site: Site, source: str, costs: Between, bandwidths: Between, may: Sequence[str]
) -> Choice | None:
    """The relay of a site, and all that could be it, best first.

    Most bandwidth from the source counts, then least cost, then most bandwidth to all others of
    the site, then its place among them.

    Args:
        costs, bandwidths: between hosts by name, as ``tables_between`` gives them. may: hosts
            that others would take a push of.

    Returns:
        None: fewer than two receivers, or the source reaches none that may.
    """
    to_site = bandwidths.get(source, {})
    able = [host for host in site.hosts if host in may and to_site.get(host, 0)]
    if len(site.hosts) < LEAST_TARGETS or not able:
        return None
    inside = {host: _inside(bandwidths, host, site) for host in able}
    ranked = sorted(able, key=lambda h: (-to_site[h], costs[source][h], -inside[h]))
    best = ranked[0]
    reason = (
        f"{format_rate(to_site[best])} from {source} at cost {costs[source][best]}, "
        f"{format_rate(inside[best])} to the others of {site.name}"
    )
    return Choice(site, best, reason, tuple(ranked))


def named(text: str, sites: Sequence[Site]) -> dict[str, str]:
    """Relays that somebody names, by site.

    Raises:
        ConfigError: a host that is none of these, a second one of a site, or nobody to pass to.
    """
    found: dict[str, str] = {}
    site_of = {host: site for site in sites for host in site.hosts}
    for host in text.split(","):
        site = site_of.get(host)
        if site is None or len(site.hosts) < LEAST_TARGETS:
            able = [h for s in sites if len(s.hosts) >= LEAST_TARGETS for h in s.hosts]
            hosts = ", ".join(able) or "no host: no other site has two receivers"
            raise ConfigError(FLAG, host, f"{NONE}, {AUTO}, or of {hosts}")
        if site.name in found:
            raise ConfigError(FLAG, text, f"one host of {site.name}")
        found[site.name] = host
    return found


def _inside(bandwidths: Between, host: str, site: Site) -> int:
    """What a fan of one host to all others of its site gets: the least that leads to one."""
    to = bandwidths.get(host, {})
    return min(to.get(other, 0) for other in site.hosts if other != host)
