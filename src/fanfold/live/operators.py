"""The operator of a fabric at a node's control socket: a challenge, then an order it signed.

Over TCP, one line each: ``{"do": "challenge"}``; ``{"challenge": "HEX"}``, drawn for this
connection alone; ``{"order": "JSON", "signature": "HEX"}``; the answer. What is signed is the
fabric's name, the node's, the challenge and the order, so an order counts once, at one node.
Answers are not signed, and nothing is hidden.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from fanfold.live.chance import draw_octets
from fanfold.seals.keys import KeyPair, PublicKey
from fanfold.seals.primitives import is_signed, sign

LABEL = b"fanfold control 1"
CHALLENGE_BYTES = 16
ASK = {"do": "challenge"}
NOBODY: dict[str, Any] = {"error": "this node knows no operator; its trust file names one"}
REFUSED: dict[str, Any] = {"error": "no order of this fabric's operator for this node"}
MAY = frozenset({"status", "table", "vat", "rekey", "fail", "impair"})
"""All but captures, which write a file of any name at the node's machine."""


class Operators(NamedTuple):
    """Who may give orders to a node.

    who: keys of operators as the trust file has them now. tell: hears of each order.
    """

    fabric: str
    node: str
    who: Callable[[], Sequence[PublicKey]]
    tell: Callable[[str], None]


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The second line of who gives an order; order: JSON, signature: hexadecimal."""

    order: str
    signature: str


def draw_challenge() -> str:
    """Another one for each connection."""
    return draw_octets(CHALLENGE_BYTES).hex()


def is_challenge(line: bytes) -> bool:
    """Whether a first line asks for one."""
    try:
        return bool(json.loads(line) == ASK)
    except (ValueError, RecursionError):
        return False


def signer(
    keys: KeyPair, fabric: str, node: str, request: dict[str, Any]
) -> Callable[[str], dict[str, Any]]:
    """What answers a challenge with an order."""
    order = json.dumps(request)

    def answer(challenge: str) -> dict[str, Any]:
        signature = sign(keys.signing, _message(fabric, node, challenge, order))
        return {"order": order, "signature": signature.hex()}

    return answer


def open_order(operators: Operators, challenge: str, line: bytes) -> bytes | None:
    """The order of a line, where an operator signed it for this node and connection."""
    try:
        one = msgspec.json.decode(line, type=Order)
        signature = bytes.fromhex(one.signature)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    message = _message(operators.fabric, operators.node, challenge, one.order)
    for key in operators.who():
        if is_signed(key.signing, signature, message):
            operators.tell(f"operator {key.short}: {_verb(one.order)}")
            return one.order.encode()
    return None


def _message(fabric: str, node: str, challenge: str, order: str) -> bytes:
    return LABEL + msgspec.msgpack.encode((fabric, node, challenge, order))


def _verb(order: str) -> str:
    """What an order is, for the log."""
    try:
        request = json.loads(order)
    except (ValueError, RecursionError):
        return "no JSON"
    return str(request.get("do", "")) if isinstance(request, dict) else "no order"
