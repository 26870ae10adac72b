"""What a scenario says of trees: where they stand, which cables fail, how feedback comes."""

from fanfold.errors import ConfigError
from fanfold.scenario.scenario import Scenario
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import Program
from fanfold.schemes.tree_fans import Site
from fanfold.topo.net import Net
from fanfold.trees.standing import Fail


def build_site(scenario: Scenario, net: Net) -> Site:
    """The net as tree protocols see it. A cable that comes back is not used again by a tree.

    Raises:
        ConfigError: a failure of a node that the net has not.
    """
    failures = [f for f in scenario.settings.failures if not f.up]
    fails: list[Fail] = []
    if failures:
        index = {net.node_name(n): n for n in range(net.n_nodes)}
        for i, failure in enumerate(failures):
            for name in (failure.a, failure.b):
                if name not in index:
                    raise ConfigError(f"settings.failures[{i}]", name, "nodes of the topology")
            fails.append((failure.at_ps, (index[failure.a], index[failure.b])))
    return Site(net, scenario.trees, scenario.settings.tree_start, tuple(fails))


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
