"""Messages of a traffic matrix file, in the form that csg-htsim reads.

Nodes N                                     hosts
Connections F                               lines of messages
S->D id I start T size B                    host S to host D, at T ps, B bytes; of lines that
                                            are alike the smallest I goes first
    trigger T                               ... when trigger T fires
    send_done_trigger T                     fires it on the sender's last ACK
    recv_done_trigger T                     fires it when the receiver has all bytes
trigger id T oneshot                        fires all that wait for it, once
trigger id T barrier count C                fires after C messages
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fanfold.errors import ConfigError
from fanfold.schemes.program import ACKED, RECEIVED, Program, build_program

_MESSAGE = re.compile(r"([0-9]+)->([0-9]+)")
_FIRES = {"send_done_trigger": ACKED, "recv_done_trigger": RECEIVED}
_BARE = ("oneshot", "barrier")
_COUNTS = ("Nodes", "Connections", "Triggers")
_KEYS = ("id", "start", "size", "trigger", "count", *_FIRES, *_BARE, *_COUNTS)
_FORM = "S->D [id I] [start PS] size BYTES [trigger T] [send_done_trigger T]"
MAX_START_PS = 2**60
MAX_BYTES = 2**55


class Message(NamedTuple):
    """One line. waits_for, fires: triggers, -1 for none. on: what fires it. id: -1 for none."""

    src: int
    dst: int
    n_bytes: int
    start_ps: int
    waits_for: int
    fires: int
    on: int
    id: int


class Trigger(NamedTuple):
    """How many messages fire a trigger."""

    id: int
    n_fires: int


def load_matrix(path: Path, n_hosts: int) -> Program:
    """Program of a file, over the first hosts of a net with ``n_hosts``.

    Raises:
        ConfigError: no such file, or the first faulty line, as "FILE:LINE".
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as err:
        raise ConfigError(str(path), str(err), "a matrix file that can be read") from err
    messages, triggers = _read(lines, str(path), n_hosts)
    if not messages:
        raise ConfigError(str(path), "no message", f"lines of {_FORM}")
    messages = _order_alike(messages)
    fired_on = {m.on for m in messages if m.fires >= 0}
    if len(fired_on) > 1:
        allowed = "send_done_trigger or recv_done_trigger in one file, not both"
        raise ConfigError(str(path), "both", allowed)
    fired = Counter(m.fires for m in messages)
    for trigger in triggers:
        _check_trigger(trigger, fired[trigger.id], str(path))
    rows = np.array([(m.src, m.dst, m.n_bytes, m.start_ps) for m in messages], np.int64)
    edges = np.array(list(_edges(messages, str(path))), np.int64).reshape(-1, 2)
    return build_program(rows, edges, on=fired_on.pop() if fired_on else RECEIVED)


def _read(lines: list[str], name: str, n_hosts: int) -> tuple[list[Message], list[Trigger]]:
    messages, triggers = [], []
    for number, line in enumerate(lines, 1):
        where, words = f"{name}:{number}", line.split("#")[0].split()
        if not words:
            continue
        if words[0] in _COUNTS:
            if _numbers(words, where).get("Nodes", 0) > n_hosts:
                raise ConfigError(where, line, f"Nodes 0..{n_hosts}, as the topology has")
        elif words[0] == "trigger":
            found = _numbers(words[1:], where)
            triggers.append(Trigger(found.get("id", -1), found.get("count", 1)))
        else:
            messages.append(_message(words, where, n_hosts))
    return messages, triggers


def _message(words: list[str], where: str, n_hosts: int) -> Message:
    ends = _MESSAGE.fullmatch(words[0])
    numbers = _numbers(words[1:], where)
    if ends is None or "size" not in numbers:
        raise ConfigError(where, " ".join(words), _FORM)
    src, dst = int(ends[1]), int(ends[2])
    if src == dst or max(src, dst) >= n_hosts:
        raise ConfigError(where, words[0], f"two different hosts, 0..{n_hosts - 1}")
    n_bytes, start_ps = numbers["size"], numbers.get("start", 0)
    if not 1 <= n_bytes <= MAX_BYTES:
        raise ConfigError(f"{where} size", n_bytes, f"1..{MAX_BYTES}")
    if start_ps > MAX_START_PS:
        raise ConfigError(f"{where} start", start_ps, f"0..{MAX_START_PS} ps")
    fired = [(numbers[key], on) for key, on in _FIRES.items() if key in numbers]
    fires, on = fired[0] if fired else (-1, RECEIVED)
    waits_for, number = numbers.get("trigger", -1), numbers.get("id", -1)
    return Message(src, dst, n_bytes, start_ps, waits_for, fires, on, number)


def _order_alike(messages: list[Message]) -> list[Message]:
    """Those alike but for id and triggers by these, in the places that they have together.

    So a connection sends them in an order that does not hang on that of the lines.
    """
    places: dict[tuple[int, ...], list[int]] = {}
    for i, m in enumerate(messages):
        places.setdefault((m.src, m.dst, m.n_bytes, m.start_ps), []).append(i)
    ordered = messages.copy()
    for mine in places.values():
        alike = sorted((messages[i] for i in mine), key=lambda m: (m.id, m.waits_for, m.fires))
        for i, message in zip(mine, alike, strict=True):
            ordered[i] = message
    return ordered


def _numbers(words: list[str], where: str) -> dict[str, int]:
    """Values by key of "key value" pairs; a bare word counts as 1."""
    found: dict[str, int] = {}
    rest = iter(words)
    for key in rest:
        value = "1" if key in _BARE else next(rest, "")
        if key not in _KEYS or not re.fullmatch("[0-9]{1,19}", value):
            raise ConfigError(
                where, " ".join(words), f"pairs of {', '.join(_KEYS)} and a number"
            )
        found[key] = int(value)
    return found


def _check_trigger(trigger: Trigger, n_fired: int, name: str) -> None:
    """Each waits for all that fire it: so of one, or as many as a barrier counts."""
    if n_fired != trigger.n_fires:
        got = f"trigger {trigger.id} fired by {n_fired} messages"
        raise ConfigError(name, got, f"{trigger.n_fires}, as it says")


def _edges(messages: list[Message], name: str) -> Iterator[tuple[int, int]]:
    """(item, item that waits for it), by the triggers between them."""
    waiting: dict[int, list[int]] = {}
    for i, message in enumerate(messages):
        if message.waits_for >= 0:
            waiting.setdefault(message.waits_for, []).append(i)
    fired = {m.fires for m in messages if m.fires >= 0}
    for trigger, items in waiting.items():
        if trigger not in fired:
            first = messages[items[0]]
            got = f"{first.src}->{first.dst} waits for trigger {trigger}"
            raise ConfigError(name, got, "triggers that some message fires")
    for i, message in enumerate(messages):
        for waiter in waiting.get(message.fires, []) if message.fires >= 0 else []:
            yield i, waiter
