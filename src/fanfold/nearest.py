"""The word that somebody meant: of a list, the one that is closest to what was typed.

Case and the marks between words do not count: ``allreduce`` is all_reduce. A beginning that
several words share is none of them.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

ASKS = "did you mean "
NOTHING = "nothing"
"""What a refusal names where nothing was given."""
SHORT = 4
"""Words of so few characters are like many others."""
_MARKS = re.compile(r"[-_ ./:]+")
_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"[^\s,;]+")


def nearest(got: str, known: Iterable[str], *, is_numbered: bool = False) -> str:
    """The closest of the words known; empty where none is close.

    Args:
        is_numbered: names that differ in a number only, h1 and h12, are different things and
            no slips of the hand.
    """
    by_plain: dict[str, str] = {}
    for word in known:
        by_plain.setdefault(_plain(word), word)
    plain = _plain(got)
    if not plain or plain.isdigit():
        return ""
    if plain in by_plain:
        return by_plain[plain]
    longer = [each for each in by_plain if each.startswith(plain)]
    if longer and len(plain) >= SHORT - 1:
        return by_plain[longer[0]] if len(longer) == 1 else ""
    close = [p for p in by_plain if not (is_numbered and _differ_in_numbers(plain, p))]
    found = get_close_matches(plain, close, n=1, cutoff=0.6 if len(plain) > SHORT else 0.75)
    return by_plain[found[0]] if found else ""


def one_of(got: str, known: Iterable[str], more: str = "", what: str = "") -> str:
    """What is allowed in place of a word: the nearest, or all of them.

    Args:
        more: said after all of them. what: that the word is not, "a command".
    """
    words = list(known)
    near = nearest(got, words)
    if not near:
        return ", ".join(words) + more
    return (f"not {what}; " if what else "") + f"{ASKS}{near}?"


def asked(got: object, allowed: str) -> str:
    """What a refusal says after its value: the nearest of a list, else what is allowed."""
    if ASKS in allowed:
        return f"; {allowed}" if allowed.startswith(ASKS) else f", {allowed}"
    words = allowed.split(", ")
    if isinstance(got, str) and len(words) > 1 and all(map(_WORD.fullmatch, words)):
        near = nearest(got, words, is_numbered=True) if got != NOTHING else ""
        if near and near != got:
            return f"; {ASKS}{near}?"
    return f", allowed: {allowed}"


def _plain(word: str) -> str:
    return _MARKS.sub("", word.casefold())


def _differ_in_numbers(a: str, b: str) -> bool:
    return a != b and _DIGITS.sub("0", a) == _DIGITS.sub("0", b)
