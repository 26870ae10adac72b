"""Labels of nodes, such as region = "eu": signed by an operator, asked for by rules.

The operator's key signs what a node is called, where it is and what its labels say, each node
by itself. Whose key that is stands in a trust file, under the name OPERATOR. A rule is one pair
KEY=VALUE that every node on the way must have.
"""

import base64
import binascii
import re
from collections.abc import Iterable

import msgspec

from fanfold.errors import ConfigError
from fanfold.seals.keys import KeyPair, PublicKey
from fanfold.seals.primitives import SIGNATURE_BYTES, is_signed, sign
from fanfold.seals.trust import Trust
from fanfold.topo.fabric import Fabric, Node

OPERATOR = "operator"
MESSAGE_LABEL = b"fanfold labels 1"
FORM = "KEY=VALUE, such as region=eu"
_RULE = re.compile(r"([A-Za-z0-9_-]{1,63})=([A-Za-z0-9][A-Za-z0-9._-]{0,62})", re.ASCII)
Pairs = tuple[tuple[str, str], ...]


class Rule(msgspec.Struct, frozen=True):
    """What every node on the way must have."""

    key: str
    value: str

    @property
    def text(self) -> str:
        """As flags and manifests have it."""
        return f"{self.key}={self.value}"

    def breach(self, labels: Pairs) -> str:
        """What of some labels breaks it, in words; empty where they keep it."""
        found = dict(labels).get(self.key)
        if found == self.value:
            return ""
        return f"{self.key}={found}" if found is not None else f"no {self.key}"


def parse_rule(text: str, field: str) -> Rule:
    """A rule of its text.

    Raises:
        ConfigError: another form.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigError(field, text, FORM)
    return Rule(*found.groups())


def labels_message(fabric: Fabric, node: Node) -> bytes:
    """What an operator signs of one node."""
    what = fabric.name, node.name, node.address, node.role, node.bfr_id, node.labels
    return MESSAGE_LABEL + msgspec.msgpack.encode(what)


def sign_labels(fabric: Fabric, keys: KeyPair) -> Fabric:
    """The fabric with its labels signed; a node without labels needs no signature."""
    nodes = []
    for node in fabric.nodes:
        signature = sign(keys.signing, labels_message(fabric, node)) if node.labels else b""
        text = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        nodes.append(msgspec.structs.replace(node, label_seal=text))
    return msgspec.structs.replace(fabric, nodes=tuple(nodes))


def operators_of(trust: Trust) -> tuple[PublicKey, ...]:
    """Keys of who may sign labels, that did not end: two while one replaces the other."""
    return tuple(row.key for row in trust.get(OPERATOR, ()) if not row.is_over)


def proven_labels(fabric: Fabric, node: Node, operators: Iterable[PublicKey]) -> Pairs:
    """A node's labels as far as an operator signed them: all or none."""
    signature = _signature(node.label_seal)
    message = labels_message(fabric, node)
    if signature and any(is_signed(key.signing, signature, message) for key in operators):
        return node.labels
    return ()


def check_labels(fabric: Fabric, operators: Iterable[PublicKey]) -> int:
    """See that all labels of a fabric are signed; how many nodes have some.

    Raises:
        ConfigError: the first node whose are not.
    """
    keys, n = tuple(operators), 0
    for i, node in enumerate(fabric.nodes):
        if not node.labels and not node.label_seal:
            continue
        n += 1
        if not proven_labels(fabric, node, keys):
            allowed = f"labels of {node.name} signed by the operator, `fanfold keys label`"
            got = "a signature of somebody or something else" if node.label_seal else "none"
            raise ConfigError(f"node[{i}].label_seal", got, allowed)
    return n


def first_breach(
    fabric: Fabric, names: Iterable[str], rule: Rule, operators: Iterable[PublicKey]
) -> str:
    """The first node that breaks a rule and how, in words; empty where none does."""
    keys = tuple(operators)
    for name in names:
        node = fabric.by_name[name]
        broken = rule.breach(proven_labels(fabric, node, keys))
        if broken:
            is_said = node.labels and not rule.breach(node.labels)
            return f"{name} has {'labels that nobody signed' if is_said else broken}"
    return ""


def _signature(text: str) -> bytes:
    try:
        octets = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return b""
    return octets if len(octets) == SIGNATURE_BYTES else b""
