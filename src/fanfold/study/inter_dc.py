"""Study: a model from one data center to regions behind a WAN.

Egress is what the source's site hands to its border router; from there on lines to several
sites carry copies as the paths have it, and bytes on lines between sites are told beside it.
Without multicast a region gets one copy, and its first replica passes it on when it has all.
"""

from fanfold.errors import ConfigError
from fanfold.study.ask import Setting
from fanfold.study.fabrics import rate_text
from fanfold.study.keys import Key
from fanfold.study.phases import Cast, Graph, Phase, Style
from fanfold.study.result import Default

KEYS = (
    Key("size", "size", "500GB", "ChiNOG 2025 slides: 500 GB to 4 regions"),
    Key("regions", "count", "4", "ChiNOG 2025 slides", 1, 1000),
    Key("km", "count", "3000", "side of the map that sites are drawn on", 1, 20_000),
    Key(
        "way",
        "word",
        "region",
        "copies and relays send each region one copy, then go on inside",
        words=("region", "replica"),
    ),
)
METRICS = (
    "time_all_ps",
    "egress_bytes",
    "wan_bytes",
    "straggler_ps",
    "busiest_bytes",
    "fabric_bytes",
    "feedback_pkts",
    "setup_ps",
    "saved_bytes",
)


def graph(setting: Setting, style: Style) -> Graph:
    """One cast to all replicas, or one to heads of regions and one inside each.

    Raises:
        ConfigError: regions that do not divide the replicas.
    """
    n, regions = setting.gpus, setting.number("regions")
    if n % regions:
        raise ConfigError("--gpus", n, f"a multiple of {regions} regions, replicas of each")
    each, n_bytes = n // regions, setting.number("size")
    sites = [tuple(range((i + 1) * each, (i + 2) * each)) for i in range(regions)]
    everybody = tuple(host for site in sites for host in site)
    direct = style in ("fan", "tree") or setting.word("way") == "replica" or each == 1
    phases = [Phase("push", casts=(Cast(0, everybody, n_bytes),))]
    if not direct:
        heads = tuple(site[0] for site in sites)
        inside = tuple(Cast(site[0], site[1:], n_bytes) for site in sites)
        phases = [
            Phase("to regions", casts=(Cast(0, heads, n_bytes),)),
            Phase("inside", ("to regions",), casts=inside),
        ]
    rate = rate_text(setting.number("rate"))
    wan = f"wan:sites={regions + 1},hosts={each},km={setting.number('km')},rate={rate}"
    return Graph(
        topology=setting.word("topology") or wan,
        n_hosts=(regions + 1) * each,
        gpus=n,
        phases=tuple(phases),
        defaults=(
            Default("bytes", f"{n_bytes:,}", "key size"),
            Default("source", "first host of the first site", "sites drawn by the seed"),
            Default("lines", "100, 200 or 400 Gbit/s, light in fibre", "topology wan"),
            Default("senders", "one window for all distances", "no tuning for the WAN"),
        ),
        has_exit=True,
    )
