"""Scenarios of chance for the packet simulator and its slow twin."""

import random
from typing import NamedTuple

from msgspec.structs import replace
from slow_fans import FanRules
from slow_schemes import drawn
from slow_sim import Plain, Rules, Slow
from slow_sums import Sums

from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.tree_fans import Site
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

NETS = (
    *("star:hosts=6", "star:hosts=9,rate=900Gbps", "leaf-spine:leaves=3,spines=2,hosts=3"),
    *("leaf-spine:leaves=2,spines=3,hosts=4,spine-rate=7Gbps", "fat-tree:k=4"),
    *("fat-tree:k=4,rate=3Gbps,delay=700ns", "rail:servers=3,gpus=3,spines=2"),
    "rail:servers=4,gpus=2,spines=2,unit=2,rate=100Gbps,inner-rate=900Gbps",
    *("torus:dims=3x3", "torus:dims=2x3x2", "dragonfly:a=3,p=2,h=1", "ring:hosts=5"),
    *("hypercube:n=3", "multi-plane:planes=2,leaves=2,spines=2,hosts=6"),
    *("wan:sites=3,hosts=4,leaves=2", "full-mesh:hosts=5"),
)
RATES = tuple(gbps * 10**9 for gbps in (3, 7, 100, 400, 900))
DELAYS = (0, 1, 333_333, 10**6, 5 * 10**6)
SIZES = (1, 100, 4096, 5000, 20_000, 65_536, 200_000, 500_001)
EACH = ("all_gather", "reduce_scatter", "all_to_all")
ONE = ("broadcast", "reduce", "all_reduce")
KINDS = {
    "unicast": (*ONE, *EACH),
    "direct": ("all_reduce", *EACH),
    "ring": (*ONE, "all_gather", "reduce_scatter"),
    "chain": ("broadcast", "reduce"),
    "binary-tree": ONE,
    "double-binary-tree": ONE,
    "halving-doubling": (*ONE, "all_gather", "reduce_scatter"),
    "parameter-server": ("all_reduce",),
    "bier": ("broadcast", "all_gather", "all_reduce"),
    "fanfold": ("broadcast", "all_gather", "all_reduce", "reduce"),
    **dict.fromkeys(("pim-sm", "pim-dm", "mldp", "sr-p2mp"), ("broadcast", "all_gather")),
}
LABELS = {"pim-sm": "ip", "pim-dm": "ip", "mldp": "mpls", "sr-p2mp": "sr"}
FANS = ("bier", "fanfold", *LABELS)
MOSTLY = (*KINDS, "bier", "fanfold", "ring", "unicast")
OF_MESSAGES = tuple(scheme for scheme in KINDS if scheme not in FANS)


class Case(NamedTuple):
    """One scenario."""

    seed: int
    net: Net
    scheme: str
    kind: str
    n_ranks: int
    n_bytes: int
    settings: Settings

    def program(self):
        """What the scheme makes of it; trees stand already."""
        work = Collective(self.kind, self.n_bytes, tuple(range(self.n_ranks)))
        return scheme_of(self.scheme).build(work, site=Site(self.net, TREES, "standing"))

    def slow(self):
        """The same by the twin."""
        net, s = self.net, self.settings
        columns = (net.src, net.dst, net.bps, net.prop_ps, net.reverse)
        plain = Plain(net.n_hosts, net.n_nodes, *(x.tolist() for x in columns))
        items = drawn(self.scheme, self.kind, self.n_bytes, self.n_ranks)
        common = {
            "payload": s.payload_bytes,
            "header": s.header_bytes,
            "ack": s.ack_bytes,
            "switch_ps": s.switch_ps,
            "is_sprayed": s.routing == "spray",
            "cuts": s.cut_through,
            "window": s.window_pkts,
            "seed": self.seed,
        }
        if self.scheme not in FANS:
            return Slow(plain, items, Rules(**common))
        rules = FanRules(
            **common,
            block=s.block_psns,
            folds=self.scheme == "fanfold",
            tree=LABELS.get(self.scheme, ""),
            is_each=s.feedback == "packet",
            sum_window=s.sum_window,
            has_codes=s.sum_numbers == "value",
        )
        return Sums(plain, items, rules)


TREES = TreeSettings()


def mixed(net, rng, rates=RATES, delays=DELAYS):
    """Cables of different rates and delays."""
    bps, prop_ps = net.bps.copy(), net.prop_ps.copy()
    for k, back in enumerate(net.reverse.tolist()):
        if k < back:
            bps[k] = bps[back] = rng.choice(rates)
            prop_ps[k] = prop_ps[back] = rng.choice(delays)
    return net._replace(bps=bps, prop_ps=prop_ps)


def case(seed, schemes=MOSTLY):
    """A scenario of a seed, of one of some schemes.

    Many fans at once have two blocks each at most, all sent at once: from then on round trips
    pace them.
    """
    rng = random.Random(seed)
    net = build_named_net(rng.choice(NETS), seed)
    if rng.random() < 0.4:
        net = mixed(net, rng)
    scheme = rng.choice(schemes)
    kind, n = rng.choice(KINDS[scheme]), rng.randint(2, min(net.n_hosts, 12))
    if scheme == "halving-doubling":
        n = 1 << n.bit_length() - 1
    size = max(rng.choice(SIZES), 2 * n)
    size = size // n * n + (0 if kind in EACH else rng.randint(0, 3))
    settings = Settings(
        routing=rng.choice(("spray", "ecmp")),
        payload_bytes=rng.choice((4096, 4096, 1500, 256)),
        header_bytes=rng.choice((64, 64, 20)),
        switch_ps=rng.choice((0, 0, 700, 300_000)),
        cut_through=rng.random() < 0.25,
        window_pkts=rng.choice((0, 0, 0, 4, 64)),
        block_psns=rng.choice((64, 16, 4)),
        feedback=rng.choice(("auto", "packet")),
        tree_start="standing",
        sum_window=rng.choice((4, 16, 256)),
        sum_numbers=rng.choice(("integer", "value")),
    )
    if size > 300 * settings.payload_bytes:
        settings = replace(settings, payload_bytes=4096)
    if scheme in FANS:
        block = 64 if kind == "all_gather" else settings.block_psns
        payload = max(settings.payload_bytes, 1500)
        settings = replace(settings, block_psns=block, payload_bytes=payload)
    return Case(seed, net, scheme, kind, n, size, settings)
