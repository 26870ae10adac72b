"""A push by way of relays: first to one host of each site, from there to the others.

The command sends for the relays of a lab, each from the relay's own address and folder in a
process of its own (api/relay_worker.py), while its first fan still runs. Whoever is called
verified was so by its own REPORT to who sent to it, with the digest of the first source.
"""

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from fanfold.api.cost_maps import host_tables
from fanfold.api.one_push import Order, Stoppable, Watch, run_once, tenant_ends
from fanfold.api.relay_task import STOP, Line, task_of
from fanfold.api.site import Site
from fanfold.errors import ConfigError
from fanfold.live.clock import now_ps, unix_s
from fanfold.live.crew import Crew
from fanfold.live.lab import Lab
from fanfold.push import manifest as manifests
from fanfold.push.gate import first_outside
from fanfold.push.manifest import Manifest
from fanfold.push.peer import State
from fanfold.push.relay_course import RelayCourse, Send
from fanfold.push.relayed import Ended, PassResult, RelayedResult, RelayResult, joined
from fanfold.push.result import PushResult
from fanfold.push.service import Push
from fanfold.seals.keys import TRUST_FILE
from fanfold.seals.trust import Trusted, load_trust, trust_at
from fanfold.topo.cost_map import groups_of
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.relays import AUTO, FLAG, NONE, Choice, choose, named, sites_of
from fanfold.topo.relays import Site as Place
from fanfold.units import PS_PER_SECOND

WORKER = (sys.executable, "-m", "fanfold.api.relay_worker")
STOPPED = "interrupted: the push was stopped"
BY_NAME = "as it was asked for"


def run_relayed(site: Site, order: Order, watch: Watch) -> PushResult:
    """A push whose receivers at other sites get it from relays there.

    Raises:
        ConfigError, EnvironmentLack: as ``run_once``; relays that nobody would trust; several
            machines.
    """
    _refuse(site, order)
    lab, fabric = site.lab, site.fabric
    source, targets = tenant_ends(fabric, order.source, order.to)
    choices = choose_relays(lab, fabric, order, source, targets)
    rest = {host for c in choices for host in c.site.hosts if host != c.relay}
    first = ",".join(host for host in targets if host not in rest)
    with tempfile.TemporaryDirectory(prefix="fanfold-") as folder:
        run = _Run(site, order, watch, choices, targets, Path(folder))
        try:
            run.begin(source)
            return run_once(site, order._replace(to=first), run, run.whole)
        finally:
            run.close()


def choose_relays(
    lab: Lab, fabric: Fabric, order: Order, source: str, targets: Sequence[str]
) -> list[Choice]:
    """Relays of all sites with two receivers, by the cost map as it is now, or by name.

    Raises:
        ConfigError: a wrong name, or hosts whose pushes others would refuse.
    """
    sites = sites_of(site_names(fabric), targets, source)
    wanted = {} if order.relay == AUTO else named(order.relay, sites)
    large = [s for s in sites if len(s.hosts) > 1 and (not wanted or s.name in wanted)]
    hosts = [host for place in large for host in place.hosts]
    if not hosts:
        return []
    costs, bandwidths = host_tables(lab, fabric, [source, *hosts], hosts)
    senders = senders_of(lab)
    may = [host for host in hosts if senders is None or host in senders]
    found = []
    for place in large:
        ranked = choose(place, source, costs, bandwidths, may)
        relay = wanted.get(place.name, ranked.relay if ranked else "")
        _require_trusted(place, relay, may)
        if not relay:  # the source reaches none of them just now: it sends to all itself
            continue
        reason = BY_NAME if wanted or ranked is None else ranked.reason
        found.append(Choice(place, relay, reason, ranked.ranked if ranked else ()))
    return found


def site_names(fabric: Fabric) -> dict[str, str]:
    """Site of each host: as the file says, or else its group in the cost map."""
    told = {node.name: node.site for node in fabric.nodes if node.role == "host"}
    if any(told.values()):
        return told
    net = fabric_net(fabric)
    return {net.node_name(h): g.name for g in groups_of(net) for h in g.hosts}


def _refuse(site: Site, order: Order) -> None:
    if site.config is not None:
        allowed = f"{NONE} with --config: push to the relays, then run push --from each of them"
        raise ConfigError(FLAG, order.relay, allowed)
    for flag, given in (("--receipts", order.receipts), ("--attest", order.attest)):
        if given is not None:
            allowed = f"none with {FLAG}: receivers sign for who sent to them, which is relays"
            raise ConfigError(flag, str(given), allowed)


def senders_of(lab: Lab) -> dict[str, Trusted] | None:
    """Whose pushes the hosts of a lab take, with what each may write; None: anybody's."""
    path = lab.folder / "keys" / TRUST_FILE
    if not path.exists():
        return None
    known = trust_at(load_trust(path), unix_s())
    good = {n: [r for r in rows if r.is_sender and not r.is_over] for n, rows in known.items()}
    return {name: rows[0] for name, rows in good.items() if rows}


def _require_trusted(place: Place, relay: str, may: Sequence[str]) -> None:
    """A relay signs as itself: others have to take what it signs."""
    if (relay and relay not in may) or not set(place.hosts) & set(may):
        allowed = "hosts that the lab's trust file lets push (is_sender)"
        raise ConfigError(FLAG, relay or f"{AUTO} at {place.name}", allowed)


class _Run(Watch):
    """One push with relays while it runs."""

    def __init__(
        self,
        site: Site,
        order: Order,
        watch: Watch,
        choices: Sequence[Choice],
        targets: Sequence[str],
        folder: Path,
    ) -> None:
        self._site, self._order, self._watch = site, order, watch
        self._targets, self._choices, self._folder = targets, choices, folder
        self._crew = Crew(self._on_line, self._on_end)
        self._courses: dict[str, RelayCourse] = {}
        self._passes: dict[str, list[PassResult]] = {}
        self._ended: list[Ended] = []
        self._began: dict[str, int] = {}
        self._sending: set[str] = set()
        self._gone: set[str] = set()
        self._job: Stoppable | None = None
        self._is_stopped = False
        self._heir = ""  # who has a newer push of this name: nothing is begun any more
        self._start_ps = 0

    def begin(self, source: str) -> None:
        """Start who sends for each site: they get ready while the source is read."""
        for site, relay, _, ranked in self._choices:
            course = RelayCourse(source, relay, ranked, site.hosts)
            self._courses[site.name], self._passes[site.name] = course, []
            self._crew.start(site.name, WORKER)

    def close(self) -> None:
        """End them."""
        self._crew.close()

    # What the first fan tells.

    def warming(self, text: str) -> None:
        self._watch.warming(text)

    def began(self, job: Stoppable) -> None:
        self._job = job
        self._watch.began(self)

    def progress(self, name: str, done: int, total: int) -> None:
        self._watch.progress(name, done, total)

    def warn(self, text: str) -> None:
        self._watch.warn(text)

    def silent(self, name: str, waits_s: float) -> None:
        """A relay that answers nothing holds nobody up."""
        self._watch.silent(name, waits_s)
        if waits_s >= 0:
            self._on_relay(name, is_verified=False)

    def stop(self) -> None:
        """End all fans, in good order."""
        self._is_stopped = True
        if self._job is not None:
            self._job.stop()
        for name in list(self._sending):
            self._crew.tell(name, STOP)

    def whole(self, job: Push) -> RelayedResult:
        """Run the first fan, and those of relays beside it and after it."""
        self._require_allowed(job.manifest)
        (self._folder / "manifest").write_bytes(manifests.encode(job.manifest))
        job.on_verified = partial(self._on_relay, is_verified=True)
        self._start_ps = now_ps()
        first = job.run()
        self._heir = self._heir or first.taken_over_by
        for row in first.receivers:
            self._on_relay(row.id, is_verified=row.state == State.VERIFIED)
        self._crew.wait(self._is_over)
        return self._result(first)

    def _require_allowed(self, manifest: Manifest) -> None:
        """Relays may write what is pushed, by the trust of the lab."""
        senders = senders_of(self._site.lab) or {}
        for choice in self._choices:
            row = senders.get(choice.relay)
            if row is None:
                continue
            outside = first_outside(manifest, row.prefix)
            if row.max_bytes is not None and manifest.total_bytes > row.max_bytes:
                outside = f"{manifest.total_bytes} bytes"
            if outside:
                got = f"{choice.relay}, which may not push {outside}"
                raise ConfigError(FLAG, got, "hosts that the lab's trust file lets push it")

    def _is_over(self) -> bool:
        if self._is_stopped or self._heir:
            return not self._sending
        return all(course.is_over() for course in self._courses.values())

    # What becomes of relays, and of their fans.

    def _on_relay(self, name: str, *, is_verified: bool) -> None:
        with self._crew.held():
            for site, course in self._courses.items():
                if course.relay == name:
                    self._send(site, course.on_relay(is_verified=is_verified))

    def _send(self, site: str, send: Send | None) -> None:
        """Let the process of a site send one fan."""
        if send is None or self._is_stopped or self._heir:
            return
        order, course = self._order, self._courses[site]
        is_relayed = send.source != course.source
        if not is_relayed or send.source != course.relay:
            who = ", ".join(send.targets)
            self._watch.warn(
                f"{site}: {who} get it from {send.source}, not from {course.relay}"
            )
        again = course.relay != send.source
        terms = order.terms._replace(takes_over=order.terms.takes_over or again)
        if is_relayed:
            terms = terms._replace(planes=AUTO)
        task = task_of(self._site.lab.name, order._replace(terms=terms), *send_ends(send))
        if is_relayed:
            path = str(self._site.lab.hosts(send.source))
            manifest = str(self._folder / "manifest")
            task = msgspec.structs.replace(task, path=path, manifest=manifest, keys=["", ""])
        self._began[site] = now_ps()
        self._sending.add(site)
        if site in self._gone:
            self._gone.remove(site)
            self._crew.start(site, WORKER)
        self._crew.tell(site, msgspec.json.encode(task).decode())

    def _on_line(self, site: str, text: str) -> None:
        line = msgspec.json.decode(text, type=Line)
        match line.kind:
            case "progress" if line.name != "hash":
                self._watch.progress(line.name, line.done, line.total)
            case "began":
                self._began[site] = now_ps()
            case "tell":
                self._watch.warn(line.text)
            case "dead":
                self._courses[site].on_dead(line.name)
                self._watch.warn(f"{site}: the node of {line.name} is gone")
            case "result":
                result = msgspec.json.decode(bytes(line.result), type=PushResult)
                self._ended.append(Ended(self._seconds(self._began[site]), result))
                self._heir = self._heir or result.taken_over_by
                rows = result.receivers
                lost = "; ".join(
                    f"{r.id}: {r.error}" for r in rows if r.state != State.VERIFIED
                )
                good = [r.id for r in rows if r.state == State.VERIFIED]
                self._over(site, good, lost, result.goodput_bps if good else 0)
            case "error":
                self._over(site, [], line.text)
            case _:
                pass

    def _on_end(self, site: str) -> None:
        """The process that sends for a site is gone: another one does what comes next."""
        self._gone.add(site)
        if site in self._sending:
            self._over(site, [], "the process that sent for it ended")

    def _over(self, site: str, verified: list[str], error: str, goodput_bps: int = 0) -> None:
        course = self._courses[site]
        sent = course.sending
        if sent is None:
            return
        self._sending.discard(site)
        spent = self._seconds(self._began[site]), self._seconds(now_ps())
        one = PassResult(sent.source, [*sent.targets], verified, *spent, goodput_bps, error)
        self._passes[site].append(one)
        self._send(site, course.on_end(verified))

    def _seconds(self, at_ps: int) -> float:
        return round((at_ps - self._start_ps) / PS_PER_SECOND, 6)

    def _result(self, first: PushResult) -> RelayedResult:
        relays = [
            RelayResult(c.site.name, c.relay, c.reason, self._passes[c.site.name])
            for c in self._choices
        ]
        why = f"not sent: {self._heir} has a newer push of its name" if self._heir else STOPPED
        lost = dict.fromkeys(self._targets, why)
        for one in (one for passes in self._passes.values() for one in passes):
            lost |= dict.fromkeys(one.targets, one.error)
        seconds = self._seconds(now_ps())
        whole = joined(first, self._ended, relays, lost, seconds)
        is_stopped = self._is_stopped and not whole.is_complete()
        heir = {"is_interrupted": is_stopped, "taken_over_by": self._heir}
        return msgspec.structs.replace(whole, **heir)


def send_ends(send: Send) -> tuple[str, list[str]]:
    """Source and targets of a fan."""
    return send.source, [*send.targets]
