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
    ring,
    unicast,
)
from fanfold.schemes.draft import Plan, check_work, spell_out
from fanfold.schemes.options import MAX_MESSAGES, SchemeOptions
from fanfold.schemes.program import Program
from fanfold.work.collective import Collective, Kind

DEFAULTS = SchemeOptions()


class Scheme(NamedTuple):
    """A name, what it is, the collectives it can do, and the function that plans them."""

    name: str
    summary: str
    kinds: tuple[Kind, ...]
    plan: Callable[[Collective, SchemeOptions], Plan]

    def build(self, work: Collective, options: SchemeOptions = DEFAULTS) -> Program:
        """Program of a collective.

        Raises:
            ConfigError: a collective that the scheme cannot do, by field.
        """
        return self.explained(work, options).program

    def explained(self, work: Collective, options: SchemeOptions = DEFAULTS) -> Plan:
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
        "direct",
        "every rank to every other at once",
        ("all_to_all", "reduce_scatter", "all_gather", "all_reduce"),
        direct.plan,
    ),
    Scheme(
        "bier",
        "one copy on each link, feedback of every receiver by itself",
        ("broadcast", "all_gather", "all_reduce"),
        bier.plan,
    ),
    Scheme(
        "fanfold",
        "one copy on each link, feedback folded on the way up",
        ("broadcast", "all_gather", "all_reduce"),
        fanfold.plan,
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


FAN_SCHEMES = frozenset({"bier", "fanfold"})
"""Those whose programs hold fans."""
