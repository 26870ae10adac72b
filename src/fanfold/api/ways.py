"""Where the bytes of a push may go: looked at on all tables before anything is sent."""

from collections.abc import Sequence

from fanfold.errors import ConfigError
from fanfold.push.author import require_known
from fanfold.push.source import Wish
from fanfold.topo.fabric import Fabric
from fanfold.topo.labels import OPERATOR, first_breach, operators_of, parse_rule
from fanfold.topo.predict import nodes_on_trees

FLAG = "--only-through"


def require_way(fabric: Fabric, source: str, targets: Sequence[str], wish: Wish) -> None:
    """See that a push with keys knows its receivers', and that its ways keep its rule.

    Every node that any BIFT leads it over has the label that the rule asks for.

    Raises:
        ConfigError: a receiver without a key, the first node that breaks the rule, and by what;
            or nobody could prove it.
    """
    if wish.seals is not None:
        require_known(wish.seals.trust, targets)
    if not wish.only_through:
        return
    rule = parse_rule(wish.only_through, FLAG)
    if wish.seals is None:
        allowed = "none without --sign or --seal: receivers have to believe it"
        raise ConfigError(FLAG, wish.only_through, allowed)
    operators = operators_of(wish.seals.trust)
    if not operators:
        allowed = f"a trust file with it: fanfold keys trust {OPERATOR} KEY --no-sender"
        raise ConfigError(FLAG, "no key of who signs labels", allowed)
    passed = {source}
    for entropy in range(fabric.n_ecmp):
        passed.update(nodes_on_trees(fabric, source, entropy, frozenset(targets)))
    names = [node.name for node in fabric.nodes if node.name in passed]
    broken = first_breach(fabric, names, rule, operators)
    if broken:
        allowed = f"{rule.text} at all nodes between {source} and its receivers"
        raise ConfigError(FLAG, broken, allowed)
