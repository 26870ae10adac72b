"""What a push tells the process that sends on for a relay, and its answers: lines of JSON."""

from pathlib import Path

import msgspec

from fanfold.api.keys import Place, Signing
from fanfold.api.one_push import Order, Terms
from fanfold.push import manifest as manifests
from fanfold.push.handed import Handed
from fanfold.push.source import Wish

STOP = "stop"


class Task(msgspec.Struct, frozen=True):
    """One fan. manifest: file with that of the push, empty where the source itself sends.

    path: what is pushed, or the folder of the relay that has it. wish, signing: but for keys.
    """

    lab: str
    source: str
    targets: list[str]
    path: str
    manifest: str
    terms: Terms
    as_name: str
    is_exact: bool
    follow: list[str]
    is_strict: bool
    only_through: str
    is_signed: bool
    is_sealed: bool
    keys: list[str]

    def order(self) -> Order:
        """The push that it asks for."""
        path: Path | Handed = Path(self.path)
        if self.manifest:
            read = manifests.decode(Path(self.manifest).read_bytes())
            path = Handed(read, Path(self.path))
        follow = tuple(map(Path, self.follow))
        wish = Wish(
            self.as_name, self.is_exact, follow, self.is_strict, None, self.only_through
        )
        place = Place(*(Path(one) if one else None for one in self.keys))
        signing = Signing(self.is_signed, self.is_sealed, place)
        to = ",".join(self.targets)
        return Order(path, self.source, to, self.terms, wish=wish, signing=signing)


def task_of(lab: str, order: Order, source: str, targets: list[str]) -> Task:
    """A fan of the source itself to some of its receivers."""
    wish, signing = order.wish, order.signing
    return Task(
        lab=lab,
        source=source,
        targets=targets,
        path=str(order.path),
        manifest="",
        terms=order.terms,
        as_name=wish.as_name,
        is_exact=wish.is_exact,
        follow=[str(one) for one in wish.follow],
        is_strict=wish.is_strict,
        only_through=wish.only_through,
        is_signed=signing.is_signed,
        is_sealed=signing.is_sealed,
        keys=[str(one or "") for one in signing.place],
    )


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an answer. kind: what it is; name, done, total, text: as kinds need them.

    result: what ``PushResult`` is in JSON.
    """

    kind: str
    name: str = ""
    done: int = 0
    total: int = 0
    text: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
