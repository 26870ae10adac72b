"""Every scheme that can be asked for by name; a new one is one file and one row here."""

from collections.abc import Callable
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.schemes import (
    bier,
    binary_tree,
    chain,
    direct,
    double_binary_tree,
    fanfold,
    halving_doubling,
    parameter_server,
    ring,
    sharp,
    unicast,
)
from fanfold.schemes.draft import SchemePlan, check_work, spell_out
from fanfold.schemes.options import MAX_MESSAGES, SchemeOptions
from fanfold.schemes.program import Program
from fanfold.schemes.tree_fans import Site, lay
from fanfold.work.collective import Collective, Kind

DEFAULTS = SchemeOptions()


FAN_KINDS: tuple[Kind, ...] = ("broadcast", "all_gather", "all_reduce")


class Scheme(NamedTuple):
    """A name, what it is, the collectives it can do, and the function that plans them.

    protocol: of the trees that its fans go by (trees/catalog.py), empty for none. installs:
    whether a manager installs trees in switches for its sums.
    """

    name: str
    summary: str
    kinds: tuple[Kind, ...]
    plan: Callable[[Collective, SchemeOptions], SchemePlan]
    protocol: str = ""
    installs: bool = False

    def build(
        self, work: Collective, options: SchemeOptions = DEFAULTS, site: Site | None = None
    ) -> Program:
        """Program of a collective.

        Args:
            site: net that trees are set up on; a scheme that has none needs none.

        Raises:
            ConfigError: a collective that the scheme cannot do, by field.
        """
        return self.placed(self.explained(work, options).program, site)

    def placed(self, program: Program, site: Site | None) -> Program:
        """The same program with its trees on a net, where the scheme has any.

        Raises:
            ConfigError: no net to set trees up on, or trees that cannot be.
        """
        if self.protocol and program.fans:
            return lay(program, self.protocol, site)
        if not self.installs or not program.sums:
            return program
        if site is None:
            raise ConfigError("site", "none", f"a net that {self.name} installs its trees on")
        return sharp.install(program, site.net, waits=site.start != "standing")

    def explained(self, work: Collective, options: SchemeOptions = DEFAULTS) -> SchemePlan:
        """The same, with what each item carries.

        An all_reduce of few pieces spends much of its time outside a steady state: the compact
        form is kept only where the plain one would have more than MAX_MESSAGES.
        """
        check_work(work, self.name, self.kinds)
        plan = self.plan(work, options)
        is_small = plan.program.n_items * plan.program.chunks <= MAX_MESSAGES
        return spell_out(plan) if work.kind == "all_reduce" and is_small else plan


CATALOG: tuple[Scheme, ...] = (
    Scheme(
        "unicast",
        "the source sends a copy to each receiver",
        ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
        unicast.plan,
    ),
    Scheme(
        "ring",
        "shards go round the ring, n - 1 steps each way",
        ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"),
        ring.plan,
    ),
    Scheme(
        "chain", "each rank passes pieces on to the next", ("broadcast", "reduce"), chain.plan
    ),
    Scheme(
        "binary-tree",
        "one binary tree, pipelined",
        ("broadcast", "reduce", "all_reduce"),
        binary_tree.plan,
    ),
    Scheme(
        "double-binary-tree",
        "two binary trees with half of the data each",
        ("broadcast", "reduce", "all_reduce"),
        double_binary_tree.plan,
    ),
    Scheme(
        "halving-doubling",
        "log2(n) rounds of exchanges, ranks a power of two",
        ("broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter"),
        halving_doubling.plan,
    ),
    Scheme(
        "parameter-server",
        "ranks push pieces to a server, it sends each sum back",
        ("all_reduce",),
        parameter_server.plan,
    ),
    Scheme(
        "direct",
        "every rank to every other at once",
        ("all_to_all", "reduce_scatter", "all_gather", "all_reduce"),
        direct.plan,
    ),
    Scheme(
        "sharp",
        "as SHARP: switches of an installed tree add up, each hop acknowledged",
        ("reduce", "all_reduce"),
        sharp.plan,
        installs=True,
    ),
    Scheme(
        "bier",
        "one copy on each link, feedback of every receiver by itself",
        FAN_KINDS,
        bier.plan,
    ),
    Scheme(
        "fanfold",
        "one copy on each link, feedback and arrays folded on the way up",
        (*FAN_KINDS, "reduce"),
        fanfold.plan,
    ),
    Scheme("pim-sm", "PIM sparse mode: a tree of each source", FAN_KINDS, bier.plan, "pim-sm"),
    Scheme("pim-dm", "PIM dense mode: flood and prune", FAN_KINDS, bier.plan, "pim-dm"),
    Scheme(
        "bidir-pim", "bidirectional PIM: one shared tree", FAN_KINDS, bier.plan, "bidir-pim"
    ),
    Scheme("mldp", "mLDP P2MP: labels, a tree a source", FAN_KINDS, bier.plan, "mldp-p2mp"),
    Scheme("mldp-mp2mp", "mLDP MP2MP: one shared tree", FAN_KINDS, bier.plan, "mldp-mp2mp"),
    Scheme(
        "sr-p2mp",
        "SR-P2MP: trees of a controller, a tree a source",
        FAN_KINDS,
        bier.plan,
        "sr-p2mp",
    ),
)


def scheme_of(name: str) -> Scheme:
    """Row of a name.

    Raises:
        ConfigError: no such scheme.
    """
    for scheme in CATALOG:
        if scheme.name == name:
            return scheme
    raise ConfigError("schemes", name, ", ".join(scheme.name for scheme in CATALOG))


FAN_SCHEMES = frozenset({"bier", "fanfold"} | {s.name for s in CATALOG if s.protocol})
"""Those whose programs hold fans."""
