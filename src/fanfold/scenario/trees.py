"""What a scenario says of trees: where they stand, which cables fail, how feedback comes."""

from collections.abc import Iterator

import msgspec

from fanfold.errors import ConfigError
from fanfold.scenario.failures import has_words, read_faults
from fanfold.scenario.scenario import Scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.schemes.tree_fans import Site
from fanfold.topo.net import Net
from fanfold.trees.standing import Fail


def build_site(scenario: Scenario, net: Net) -> Site:
    """The net as tree protocols see it. A cable that comes back is not used again by a tree.

    With failures in words detection takes what sessions between neighbours take, whatever the
    settings of trees say: all schemes have the same timers.

    Raises:
        ConfigError: a failure of a node that the net has not.
    """
    failures = scenario.settings.failures
    fails = list(_fails_of(scenario.settings, net))
    if any(failure.a for failure in failures):
        index = {net.node_name(n): n for n in range(net.n_nodes)}
        for i, failure in enumerate(failures):
            if not failure.a or failure.up:
                continue
            for name in (failure.a, failure.b):
                if name not in index:
                    raise ConfigError(f"settings.failures[{i}]", name, "nodes of the topology")
            fails.append((failure.at_ps, (index[failure.a], index[failure.b])))
    trees = scenario.trees
    if has_words(scenario.settings):
        detect_ps = scenario.settings.detect_ps
        trees = msgspec.structs.replace(trees, detect_ps=detect_ps)
    return Site(net, trees, scenario.settings.tree_start, tuple(fails))


def _fails_of(settings: Settings, net: Net) -> Iterator[Fail]:
    """What fails in words, as trees see it: cables, and routers that end or stand still.

    What is mended before anybody notices fails for nobody.
    """
    for fault in read_faults(settings, net):
        is_short = 0 <= fault.until_ps <= fault.at_ps + settings.detect_ps
        is_host = fault.kind in ("node", "pause") and fault.nodes[0] < net.n_hosts
        is_half = fault.kind == "half-cable"  # the neighbour is still there
        if fault.cuts and not is_short and not is_host and not is_half:
            yield fault.at_ps, (fault.nodes[0], fault.nodes[-1])


def with_feedback(program: Program, settings: Settings) -> Program:
    """The same program with feedback folded where that is asked for.

    Raises:
        ConfigError: feedback folded along a tree, which leaves no slot behind.
    """
    if settings.feedback != "folded" or not program.fans:
        return program
    if program.protocol:
        allowed = f"auto, block, packet or nack with {program.protocol}"
        raise ConfigError("settings.feedback", settings.feedback, allowed)
    return program._replace(folds=True)
