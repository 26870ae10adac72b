"""One push as one fan: what is asked of it, who is told of it, and everything around it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fanfold.api.captures import (
    check_capture,
    end_capture,
    snaplen_of,
    start_capture,
    tell_size,
)
from fanfold.api.keys import Signing, lab_keys, link_key_of, seals_of
from fanfold.api.site import Site
from fanfold.api.ways import require_way
from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.impair import LinkImpairment, parse_impairment, parse_loss
from fanfold.live.lab import FABRIC_FILE
from fanfold.live.plane_sight import plan_of
from fanfold.live.plane_watch import PlaneWatch
from fanfold.live.warm import is_compiled, warm
from fanfold.push.attesting import AllowList, Verifier
from fanfold.push.handed import Handed
from fanfold.push.receipts import Receipts, require_folder
from fanfold.push.result import PushResult
from fanfold.push.sending import PATIENCE_PS
from fanfold.push.service import OWN_NAME, Push, ToldWeights
from fanfold.push.source import Wish
from fanfold.seals.trust import Seals
from fanfold.topo.fabric import Fabric, whose
from fanfold.topo.openness import check_links, is_told, may_be_open, told_unsigned
from fanfold.topo.planes import AUTO, chosen_planes
from fanfold.topo.relays import NONE
from fanfold.units import parse_duration, parse_rate

REPAIRS = ("nearest", "source")


def checked_repair(text: str) -> str:
    """Who repairs: one of REPAIRS.

    Raises:
        ConfigError: another word.
    """
    if text not in REPAIRS:
        raise ConfigError("--repair", text, ", ".join(REPAIRS))
    return text


class Terms(NamedTuple):
    """How fast a push may go, 0 = auto, and how long it waits for those who are silent.

    repair: "nearest", BFRs repair what they keep, or "source", nobody else does. planes: over
    which it goes, "auto" or numbers such as "1,2". takes_over: from a push of the same name
    that is alive, at once. avoids_gray: a lab's tables do without links that are named gray.
    """

    cap_bps: int = 0
    patience_ps: int = PATIENCE_PS
    repair: str = "nearest"
    planes: str = AUTO
    takes_over: bool = False
    avoids_gray: bool = False


class Order(NamedTuple):
    """What is to be pushed where, as it stands on the command line.

    losses, impairs, seed: what befalls links of a lab meanwhile. capture: file, bytes of each
    packet that are kept. receipts: a folder for those of its receivers.
    attest: who judges their statements, or a list of software. relay: who passes it on at
    other sites, "none", "auto" or hosts by commas.
    """

    path: Path | Handed
    source: str = "h0"
    to: str = "all"
    terms: Terms = Terms()
    losses: Sequence[str] = ()
    impairs: Sequence[str] = ()
    seed: int = 1
    capture: tuple[Path | None, int | None] = (None, None)
    wish: Wish = OWN_NAME
    signing: Signing = Signing()
    receipts: Path | None = None
    attest: str | Path | Verifier | None = None
    relay: str = NONE


class Stoppable(Protocol):
    """Something that runs and can be told to end."""

    def stop(self) -> None:
        """End early, in good order."""


class Watch:
    """Who is told of a push while it runs; this one listens to nothing."""

    def warming(self, text: str) -> None:
        """Kernels are compiled first: what is done just now."""

    def began(self, job: Stoppable) -> None:
        """It is ready; ``job.stop`` ends it in good order."""

    def progress(self, name: str, done: int, total: int) -> None:
        """Blocks that a receiver has; of name "hash", those that were read at the source."""

    def silent(self, name: str, waits_s: float) -> None:
        """A receiver fell silent and is waited for so long; below 0 it speaks again."""

    def warn(self, text: str) -> None:
        """What is odd and no error."""


def run_once(
    site: Site, order: Order, watch: Watch, whole: Callable[[Push], PushResult] = Push.run
) -> PushResult:
    """One push as one fan; ``whole`` runs it once it is ready, and gives what is known."""
    fabric = site.fabric
    source, targets = tenant_ends(fabric, order.source, order.to)
    chosen_planes(fabric, source, order.terms.planes)
    site.enter(source)
    links = {frozenset((link.a, link.b)) for link in fabric.links}
    impairments = impairments_of(order.losses, order.impairs, links)
    seed, pcap = order.seed, order.capture[0]
    snaplen = snaplen_of(fabric, order.capture[1])
    if isinstance(order.path, Path):
        check_capture(pcap, order.path)
    if not is_compiled():  # half a minute before the first byte
        warm(watch.warming)
    cap, ask = order.terms.cap_bps, partial(site.begin_statuses, source=source)
    lab = site.lab if site.config is None else None
    seals = _seals_of(site, order, (source, targets), watch)
    wish = order.wish._replace(seals=seals)
    require_way(fabric, source, targets, wish)
    own = lab_keys(lab, source) if lab is not None else order.signing.place.folder
    file = lab.folder / FABRIC_FILE if lab is not None else site.config
    link_key = link_key_of(fabric, source, own, file)
    receipts = _receipts_of(order, is_signed=wish.seals is not None)
    job = Push(fabric, source, targets, order.path, cap, watch.progress, ask, wish)
    job.link_key = link_key
    job.receipts = receipts
    _tell_terms(job, order, watch)
    if pcap is not None:
        tell_size(job, pcap, snaplen, site.tell)
    watch.began(job)
    raw = start_capture(site, pcap, snaplen)
    if impairments:
        site.impair(impairments, seed)
        job.impair(impairments, seed)
    try:
        with plane_weights(site, source, targets, order.terms.planes) as job.told_weights:
            return whole(job)
    finally:
        if impairments:
            site.impair([], 0)
        end_capture(site, pcap, raw)


def _seals_of(
    site: Site, order: Order, ends: tuple[str, Sequence[str]], watch: Watch
) -> Seals | None:
    """Keys that a push is signed with: also where it does not say so, but its fabric does.

    ends: source and receivers.

    Raises:
        ConfigError: there are none, or its links have none and its file does not ask for that.
    """
    fabric, signing, (source, targets) = site.fabric, order.signing, ends
    more: dict[str, Any] = {"targets": targets, "tell": watch.warn}
    lab = site.lab if site.config is None else None
    has_links = fabric.has_keys(source)
    if site.config is not None and (line := check_links(fabric, source, str(site.config))):
        watch.warn(line)
    is_near = lab is not None and not fabric.open
    if signing.is_signed or signing.is_sealed or is_near or may_be_open(fabric, "ends"):
        seals = seals_of(signing, source, lab, has_links=has_links, **more)
        if seals is None and lab is None and is_told(fabric):
            watch.warn(told_unsigned(source))
        return seals
    try:
        return seals_of(signing._replace(is_signed=True), source, lab, **more)
    except ConfigError as error:
        file = site.config or "its file"
        allowed = f'{error.allowed}; or open = "ends" in {file}, and nobody signs pushes'
        raise ConfigError(error.field, error.got, allowed) from error


def _receipts_of(order: Order, *, is_signed: bool) -> Receipts | None:
    """Where receipts go, and who judges them.

    Raises:
        ConfigError: the push is not signed, or there is no such folder or list.
    """
    for flag, given in (("--receipts", order.receipts), ("--attest", order.attest)):
        if given is not None and not is_signed:
            allowed = "none without --sign or --seal: receivers sign by their keys"
            raise ConfigError(flag, str(given), allowed)
    if order.receipts is not None:
        require_folder(order.receipts)
    attest = order.attest
    verifier = AllowList(Path(attest)) if isinstance(attest, str | Path) else attest
    return Receipts(order.receipts, verifier) if order.receipts or verifier else None


def _tell_terms(job: Push, order: Order, watch: Watch) -> None:
    job.on_silence, job.tell = watch.silent, watch.warn
    for line in job.warnings:
        watch.warn(line)
    terms = order.terms
    job.patience_ps, job.takes_over = terms.patience_ps, terms.takes_over
    job.repairs_alone = terms.repair == REPAIRS[1]
    job.use_planes(terms.planes)


@contextmanager
def plane_weights(
    site: Site, source: str, targets: Sequence[str], planes: str
) -> Iterator[ToldWeights]:
    """What BGP of a lab says of planes while a push runs; of others nobody says anything."""
    if site.config is not None or plan_of(site.lab) is None:
        yield lambda: None
        return
    chosen = chosen_planes(site.fabric, source, planes)
    with closing(PlaneWatch(site.lab, source, targets, chosen)) as watch:
        yield lambda: watch.latest


def ends_of(hosts: list[str], source: str, to: str) -> tuple[str, list[str]]:
    """The source and who receives, which it does not."""
    sources = expand_nodes(source, hosts, "--from")
    if len(sources) > 1:
        raise ConfigError("--from", source, "one host")
    others = [host for host in hosts if host != sources[0]]
    targets = others if to == "all" else [*expand_nodes(to, hosts, "--to")]
    if len(targets) > 1 and sources[0] in targets:
        raise ConfigError("--to", to, f"hosts other than {sources[0]}, which sends")
    return sources[0], targets


def tenant_ends(fabric: Fabric, source: str, to: str) -> tuple[str, list[str]]:
    """The source and who receives: hosts of one tenant, ``all`` of its own.

    Raises:
        ConfigError: as ``ends_of``, a host of another tenant, or more than its own may have.
    """
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    source, targets = ends_of(hosts, source, to)
    own, peers = fabric.tenant_of.get(source), fabric.peers_of(source)
    if to == "all":
        targets = [name for name in targets if name in peers]
    for name in targets:
        if name not in peers:
            got = f"{name} of {whose(fabric.tenant_name(name))}"
            allowed = f"hosts of {whose(fabric.tenant_name(source))}: {', '.join(peers)}"
            raise ConfigError("--to", got, allowed)
    if own is not None and own.receivers and len(targets) > own.receivers:
        allowed = f"at most {own.receivers}, of {whose(own.name)}"
        raise ConfigError("--to", f"{len(targets)} receivers", allowed)
    return source, targets


def impairments_of(
    losses: Iterable[str], others: Iterable[str], links: set[frozenset[str]]
) -> list[LinkImpairment]:
    """What befalls links, of all links first, so that a link's own replaces it.

    Raises:
        ConfigError: a wrong one, or a second one for the same place.
    """
    given = [("--loss", text, parse_loss(text, links, "--loss")) for text in losses]
    given += [("--impair", text, parse_impairment(text, links, "--impair")) for text in others]
    places: set[tuple[str, str]] = set()
    for flag, text, one in given:
        if (one.a, one.b) in places:
            raise ConfigError(flag, text, "one for each link, as --impair drop=1%,rate=5Mbps")
        places.add((one.a, one.b))
    return sorted((one for _, _, one in given), key=lambda one: bool(one.a))


def terms_of(rate: str, patience: str, repair: str = REPAIRS[0], planes: str = AUTO) -> Terms:
    """Terms as flags have them."""
    wait_ps = parse_duration(patience, "--patience")
    return Terms(rate_cap(rate), wait_ps, checked_repair(repair), planes)


def rate_cap(rate: str) -> int:
    """Bits per second of ``--rate``, 0 for auto."""
    if rate == "auto":
        return 0
    try:
        return parse_rate(rate, "--rate")
    except ConfigError as error:
        raise ConfigError("--rate", rate, "auto, or more than 0 such as 5Gbps") from error
