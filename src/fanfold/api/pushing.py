"""A push as programs ask for it; `fanfold push` is this with bars and tables around it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fanfold.api.arguments import by_argument
from fanfold.api.avoiding import begin_avoiding, end_avoiding
from fanfold.api.keys import Signing, place_of
from fanfold.api.one_push import Order, Watch, run_once, terms_of
from fanfold.api.site import Site
from fanfold.errors import CheckFailed
from fanfold.live.lab import Lab
from fanfold.push.attesting import Verifier
from fanfold.push.result import PushResult, require_complete
from fanfold.push.source import Wish
from fanfold.topo.planes import AUTO
from fanfold.topo.relays import NONE


class PushFailed(CheckFailed):
    """A push ended, and not every receiver has verified everything.

    result: what is known of it, which is what ``fanfold push --json`` prints.
    """

    def __init__(self, text: str, result: PushResult) -> None:
        super().__init__(text)
        self.result = result


class _Progress(Watch):
    """Tells one function."""

    def __init__(self, tell: Callable[[str, int, int], None]) -> None:
        self._tell = tell

    def progress(self, name: str, done: int, total: int) -> None:
        self._tell(name, done, total)


QUIET = Watch()


def push(
    path: str | Path,
    *,
    to: str | Iterable[str] = "all",
    source: str = "h0",
    lab: str = "lab",
    config: str | Path | None = None,
    name: str = "",
    delete: bool = False,
    follow: Iterable[str | Path] = (),
    strict: bool = False,
    rate: str = "auto",
    patience: str = "30s",
    planes: str = AUTO,
    take_over: bool = False,
    sign: bool = False,
    seal: bool = False,
    keys: str | Path | None = None,
    trusted: str | Path | None = None,
    receipts: str | Path | None = None,
    only_through: str = "",
    attest: str | Path | Verifier | None = None,
    relay: str = NONE,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> PushResult:
    """Send a file or a folder to many hosts with one copy on each link.

    Args:
        path: file, or folder that arrives whole. source: host that sends. to: "all", "h1,h3-5",
            or a list of names. lab: of this machine, or config: file of several machines.
        name: of it below receivers' folders. delete: files there that ``path`` has not, go.
        follow: folders beside ``path`` that symbolic links may lead to. strict: refuse broken
            safetensors and indexes. rate: "auto", or a cap such as "5Gbps".
        patience: how long the silent are waited for when all others have ended.
        planes: of the source, "auto" or "1,2". take_over: from a push of it that is alive.
        sign: receivers can prove who sent it. seal: and nobody on the way can read it. keys:
            folder of those of the source. trusted: file with those of receivers. receipts:
            folder for theirs. attest: judges their statements. only_through: "region=eu".
            relay: hosts that pass it on at other sites, or "auto", by the cost map.
        on_progress: told receiver, blocks that it has, and blocks in all; first "hash".

    Returns:
        What the push knows of itself: receivers, links predicted and counted, repairs.

    Raises:
        ConfigError: wrong values. EnvironmentLack: no lab. PushFailed: somebody lacks it.

    >>> with fanfold.lab(leaves=1, spines=0, hosts=2) as lab:  # doctest: +SKIP
    ...     [r.state for r in fanfold.push("model.safetensors", lab=lab.name).receivers]
    ['verified', 'verified']
    """
    with by_argument():
        site = Site(Lab(lab), Path(config) if config else None)
        wish = Wish(name, delete, tuple(map(Path, follow)), strict, only_through=only_through)
        terms = terms_of(rate, patience, planes=planes)._replace(takes_over=take_over)
        signing = Signing(sign, seal, place_of(keys, trusted))
        order = Order(Path(path), source, _named(to), terms, wish=wish, relay=relay)
        more: dict[str, Any] = {"receipts": place_of(receipts, None).folder, "attest": attest}
        order = order._replace(signing=signing, **more)
        return _whole(run_push(site, order, _Progress(on_progress) if on_progress else QUIET))


def _named(to: str | Iterable[str]) -> str:
    return to if isinstance(to, str) else ",".join(to)


def _whole(result: PushResult) -> PushResult:
    try:
        require_complete(result)
    except CheckFailed as error:
        raise PushFailed(str(error), result) from error
    return result


def run_push(site: Site, order: Order, watch: Watch = QUIET) -> PushResult:
    """Everything around one push: names, impairments, captures, progress.

    Raises:
        ConfigError, EnvironmentLack: as ``push``; one that is incomplete is a result.
    """
    run: Callable[[Site, Order, Watch], PushResult] = run_once
    if order.relay != NONE:
        from fanfold.api.relaying import run_relayed  # noqa: PLC0415 - few pushes have relays

        run = run_relayed
    if site.config is not None or not order.terms.avoids_gray:
        return run(site, order, watch)
    for line in begin_avoiding(site.lab):
        watch.warn(line)
    site.fabric = site.lab.fabric()
    return end_avoiding(site.lab, run(site, order, watch))
