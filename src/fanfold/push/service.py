"""One push from beginning to end on a live fabric, and what is known afterwards."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from fanfold.core.flight import Shape
from fanfold.core.gap_book import GapBook
from fanfold.errors import ConfigError
from fanfold.impair import LinkImpairment, apply
from fanfold.live.chance import draw_flow, draw_nonce
from fanfold.live.clock import now_ps, unix_ns
from fanfold.live.control_sockets import Asking
from fanfold.live.event_loop import EventLoop
from fanfold.live.key_log import KEY_LOG, KeyLog, open_key_log
from fanfold.live.key_watch import OwnKey
from fanfold.live.link_driver import PUSH_PATIENCE_PS, drive_links, room_for_links
from fanfold.live.outbox import Outbox, Read
from fanfold.live.own_status import status_of
from fanfold.live.ports import (
    Limits,
    build_node_state,
    build_sock,
    check_mtu,
    open_flow_socket,
    time_arrivals,
)
from fanfold.live.status import Statuses, read_all, read_status
from fanfold.live.warm import warm
from fanfold.push import manifest as manifests
from fanfold.push.author import Author
from fanfold.push.counted import AskNodes, Counted
from fanfold.push.envelope import wrap
from fanfold.push.epochs import NO_EPOCH, TOP, Holder
from fanfold.push.geometry import Geometry, geometry_of
from fanfold.push.gray_links import Settling, gray_of
from fanfold.push.handed import Handed, read_source
from fanfold.push.link_results import link_results
from fanfold.push.notes import notes_of
from fanfold.push.peer import ENDED, State, found_newer, rival_of
from fanfold.push.plane_fans import ONE_PLANE, Planes
from fanfold.push.planes import ENTROPY_MASK, PushPlanes
from fanfold.push.proof import Proof
from fanfold.push.receipts import Receipts
from fanfold.push.result import PushResult, ReceiverResult
from fanfold.push.sender_role import SenderRole, drive
from fanfold.push.sending import PATIENCE_PS, PushSender
from fanfold.push.source import Wish, fan_of, fan_of_bytes, warnings_of
from fanfold.seals.trust import Seals
from fanfold.topo.fabric import Fabric
from fanfold.topo.predict import nodes_on_trees, suspect
from fanfold.units import PS_PER_SECOND
from fanfold.wire.bitstring import bsl_of_bits
from fanfold.wire.close import CloseReason
from fanfold.wire.inner import address_of

Progress = Callable[[str, int, int], None]
"""(receiver name or "hash", done, of all)"""
OnSilence = Callable[[str, float], None]
"""(receiver that fell silent, seconds that it is waited for; -1 when it speaks again)"""
ToldWeights = Callable[[], Mapping[int, int] | None]
"""Weights of planes that somebody tells, the same object until they change; None: nobody."""
TICK_PS = 100_000_000_000
SLACK_PS = 20_000_000_000
"""After the deadline of the slot at the first BFR, before anybody is asked."""
SETTLE_PS = 50_000_000_000
"""What is on its way when a push ends has come by then, or is looked for once more."""
MAX_ABOVE = 4
"""So often a push begins anew above a newer one that it found."""
ANSWERS_S = 0.05
"""What nodes counted before a push is waited for so long: a small file is read at once."""
OWN_NAME = Wish()


class Push:
    """A push being made ready, run, and looked at.

    Args:
        fabric, source: who sends. targets: names of receivers. path: file or directory, or
            what a receiver of it has.
        cap_bps: rate asked for by hand, 0 = none. ask: for the counters of nodes.
        wish: how it is to arrive.
    """

    receipts: Receipts | None = None
    """Where receipts go, of a push that is signed."""

    def __init__(
        self,
        fabric: Fabric,
        source: str,
        targets: Iterable[str],
        path: Path | Handed,
        cap_bps: int,
        progress: Progress,
        ask: AskNodes,
        wish: Wish = OWN_NAME,
    ) -> None:
        self.fabric, self.source, self.progress, self.ask = fabric, source, progress, ask
        self.targets = [t for t in targets if t != source]
        if not self.targets:
            raise ConfigError("--to", source, "at least one receiver other than the source")
        check_mtu(fabric, source)
        self.geometry: Geometry = geometry_of(fabric.mtu, fabric.bitstring_bits)
        self.flow, self.nonce = draw_flow(), draw_nonce()
        self.author = self._author(wish.seals) if wish.seals else None
        self.tag_bytes = wish.tag_bytes
        self.planes = PushPlanes(fabric, source, self.targets, self.entropy())
        self.nodes = self._nodes_on_trees()
        self._before = ask(self.nodes)  # they answer while the file is read
        warm()
        self.manifest, self.reader = read_source(path, self.geometry, progress, wish)
        self.warnings = [*warnings_of(self.reader), *self._key_log_warnings()]
        self.tell: Callable[[str], None] = lambda line: None
        """Told what receivers wait for."""
        self.sock = open_flow_socket(fabric.by_name[source].address, source)
        self.event_loop, self._start = self._open()
        self.link_key: OwnKey | None = None
        """Of the source, where its links have keys."""
        self._on_close: list[Callable[[], None]] = []
        self.cap_bps = cap_bps
        self.patience_ps: int = PATIENCE_PS
        """How long those who are silent are waited for when all others have ended."""
        self.takes_over = False
        """It waits for no push of the same that is alive."""
        self._epoch = NO_EPOCH  # at least
        self.repairs_alone = False
        """BFRs keep nothing of it and leave all repairs to the source."""
        self.on_silence: OnSilence = lambda name, waits_s: None
        self.on_verified: Callable[[str], None] = lambda name: None
        """Told of each receiver once it has all, by its own word."""
        self.told_weights: ToldWeights = lambda: None
        """Asked all the time what weights the planes have now."""
        self.is_stopped = self._is_closed = False
        self._silent, self._shown, self._notes = set[int](), dict[int, int](), dict[int, str]()
        self._verified = set[int]()
        self._next_tick_ps = 0
        self._weights: Mapping[int, int] | None = None

    def _open(self) -> tuple[EventLoop, Statuses]:
        """The loop of the source, and what it counted before the push."""
        fabric, source = self.fabric, self.source
        state = build_node_state(fabric, source, Limits())
        n_links = room_for_links(fabric, source)
        io = build_sock(self.sock, len(state.ports.addr), n_links=n_links)
        start = read_all(fabric, {source: status_of(fabric, source, io, state)})
        return EventLoop(self.sock, io, state, None), start

    def impair(self, impairments: Iterable[LinkImpairment], seed: int) -> None:
        """Let impairments befall what arrives at the source itself."""
        names = [n.name for n in self.fabric.port_nodes(self.source)]
        for link in impairments:
            for port, name in enumerate(names[1:], start=1):
                if link.hits(self.source, name):
                    stream = f"link/{name}-{self.source}"
                    apply(self.event_loop.node.impairments, port, link.impairment, seed, stream)
                    if link.impairment.needs_times():
                        time_arrivals(self.sock)

    def run(self) -> PushResult:
        """Send, wait for every receiver's end, gather counters."""
        cpu = _cpu_s()
        waits = isinstance(self._before, Asking) and not self._before.is_done(ANSWERS_S)
        self._is_counted_before = not waits  # else some of it counts this push
        try:
            self._take_link_keys()
            self._role = self._build_role()
            try:
                role = self._drive(self._role)
            except BaseException as error:
                is_gone = isinstance(error, ConfigError)  # nobody can ever have the rest
                self._role.send_close(CloseReason.GONE if is_gone else CloseReason.ABORTED)
                raise
            end_ps, machine = now_ps(), role.machine
            is_aborted = not machine.is_done()
            if self.receipts is not None and not self.is_stopped:
                self.receipts.collect(self, role)
            role.send_close(CloseReason.ABORTED if is_aborted else CloseReason.DONE)
            machine.give_up_silent(end_ps)
            self._tick(NEVER_TICK, machine)
            cpu_s = _cpu_s() - cpu
            counted = self._counted()
            result = self._result(role, end_ps, counted, cpu_s)
            if self.receipts is not None:
                result = self.receipts.into(result)
            is_interrupted = self.is_stopped and is_aborted
            notes = notes_of(self.fabric, counted.before, counted.after, result.drops)
            gray = gray_of(self.fabric, self._settling(machine, counted))
            notes += [link.words() for link in gray]
            return msgspec.structs.replace(
                result, notes=notes, gray=gray, is_interrupted=is_interrupted
            )
        finally:
            self.close()

    def _drive(self, role: SenderRole) -> SenderRole:
        """Run until all have ended; anew, above a newer push that was found at the start."""
        for _ in range(MAX_ABOVE):
            newer = self._drive_once(role)
            if newer is None or newer.epoch >= TOP:
                break
            role.send_close(CloseReason.ABORTED)
            self._epoch = newer.epoch + 1
            self.flow ^= draw_flow() & ~(ENTROPY_MASK << 1)  # the same way, another flow
            self.nonce = draw_nonce()
            if self.author is not None:
                self.author = self.author.again(self.flow, self.nonce)
            role = self._role = self._build_role()
        return role

    def _drive_once(self, role: SenderRole) -> Holder | None:
        """A newer push that it found when it began, else None."""
        machine = role.machine

        def newer() -> Holder | None:
            return found_newer(machine.peers.values(), now_ps() - machine.start_ps)

        drive(
            role,
            lambda: self.is_stopped or newer() is not None,
            lambda now: self._tick(now, machine),
        )
        return None if self.is_stopped else newer()

    def _take_link_keys(self) -> None:
        """Have a key with each neighbour of the source before anything leaves."""
        loop, key = self.event_loop, self.link_key
        driver = drive_links(
            loop, self.fabric, self.source, key, patience_ps=PUSH_PATIENCE_PS, tell=self.tell
        )
        if driver is not None:
            self._on_close.append(driver.close)
            driver.wait_for_keys(loop.step)

    def stop(self) -> None:
        """End early: what is verified stays at the receivers."""
        self.is_stopped = True
        if not self._is_closed:
            self.event_loop.wake()

    def close(self) -> None:
        """Give files and the socket back."""
        self._is_closed = True
        self.reader.close()
        for last in self._on_close:
            last()
        self.event_loop.close()

    def _build_role(self) -> SenderRole:
        me = self.fabric.by_name[self.source]
        outbox = Outbox(
            self.event_loop.io,
            self.event_loop.node,
            bsl=bsl_of_bits(self.fabric.bitstring_bits),
            sub_domain=self.fabric.sub_domain_of(self.source),
            bfr_id=me.bfr_id,
            addr=address_of(me.address),
            flow_port=self.sock.getsockname()[1],
            entropy=self.entropy(),
        )
        outbox.repairs_alone = self.repairs_alone
        encoded, author = manifests.encode(self.manifest), self.author
        told = max(self._epoch, unix_ns()), self.takes_over
        whole = author.envelope(encoded, *told) if author else wrap(self.nonce, encoded, *told)
        read: Read = self.reader.read_chunk
        if author is not None:
            read = author.sealing(read)
        first = Shape(len(whole), *self.geometry)
        n_tags = self.tag_bytes * manifests.n_chunks(self.manifest)
        second = Shape(self.manifest.total_bytes + n_tags, *self.geometry)
        outbox.fans[self.flow] = fan_of_bytes(whole, first)
        outbox.fans[self.flow | 1] = fan_of(read, second)
        ids = [self.fabric.by_name[name].bfr_id for name in self.targets]
        planes = self._begin_planes()
        outbox.entropies = self.planes.entropies
        machine = PushSender(
            now_ps(), self.flow, first, second, ids, self.cap_bps, self._proof(), planes
        )
        machine.patience_ps = self.patience_ps
        node = self.event_loop.node.row[0]
        slots_ps = int(node["fold_ps"]) * (int(node["depth"]) - 2) + SLACK_PS
        machine.manifest_fan.slots_ps = slots_ps
        role = SenderRole(self.event_loop, outbox, machine)
        if author is not None:
            role.signed = author.signed
        self.event_loop.role = role
        return role

    def _author(self, seals: Seals) -> Author:
        ids = {name: self.fabric.by_name[name].bfr_id for name in self.targets}
        me = self.fabric.by_name[self.source].bfr_id
        author = Author(seals, ids, self.flow, self.nonce, me)
        log = open_key_log(os.environ) if seals.is_sealed else None
        if log is not None:
            log.note_push(self.flow, author.content_key)
            log.close()
        return author

    def _key_log_warnings(self) -> list[str]:
        path, has_links = os.environ.get(KEY_LOG), self.fabric.has_keys(self.source)
        has_secrets = has_links or (self.author is not None and self.author.cipher is not None)
        return [KeyLog.warning_of(self.source, path)] if path and has_secrets else []

    def _proof(self) -> Proof:
        whole, n_files = manifests.whole_digest(self.manifest), len(self.manifest.entries)
        if self.author is None:
            return Proof(self.nonce, whole, n_files)
        cipher = self.author.cipher
        digest = cipher.hide(whole) if cipher is not None else whole
        return Proof(self.nonce, digest, n_files, whole, self.author.is_from)

    def entropy(self) -> int:
        """BIER entropy of the push: one path for each plane, order kept on it."""
        return (self.flow >> 1) & ENTROPY_MASK

    def use_planes(self, text: str) -> None:
        """Go over these planes only, as ``--planes`` has them."""
        self.planes = PushPlanes(self.fabric, self.source, self.targets, self.entropy(), text)

    def _nodes_on_trees(self) -> tuple[str, ...]:
        targets, found = set(self.targets), set[str]()
        for entropy in self.planes.entropies:
            found.update(nodes_on_trees(self.fabric, self.source, entropy, targets))
        return tuple(node.name for node in self.fabric.nodes if node.name in found)

    def _begin_planes(self) -> Planes:
        """Planes as nodes see them now; a source with one does not wait for that."""
        if not self.planes.ways:
            return ONE_PLANE
        answers = self._before()
        read = ((name, read_status(self.fabric, name, answers.get(name))) for name in answers)
        known = ((name, told) for name, told in read if told is not None)
        self._weights = self.told_weights()
        return self.planes.begin(known, self._weights)

    def _follow_weights(self, now: int, machine: PushSender) -> None:
        told = self.told_weights()
        if told is self._weights or told is None or not self.planes.ways:
            return
        self._weights = told
        seconds = _seconds(now - machine.start_ps)
        machine.set_weights(now, self.planes.follow(seconds, told))

    def _tick(self, now: int, machine: PushSender) -> None:
        self._follow_weights(now, machine)
        if now < self._next_tick_ps:
            return
        self._next_tick_ps = now + TICK_PS
        self._tell_silent(machine)
        self._tell_verified(machine)
        total = machine.data_shape.n_blocks
        for bit, peer in machine.peers.items():
            done = total if peer.state == State.VERIFIED else 0
            if machine.data_fan is not None and peer.state == State.RECEIVING:
                done = total - machine.data_fan.n_lacking.get(bit, total)
            if peer.state == State.FINISHING:
                done = total
            if self._notes.get(bit, "") != peer.note:
                self._notes[bit] = peer.note
                if peer.note:
                    self.tell(f"{self._name(bit)} {peer.note}")
            if self._shown.get(bit) != done:
                self._shown[bit] = done
                self.progress(self._name(bit), done, total)

    def _tell_verified(self, machine: PushSender) -> None:
        verified = {b for b, p in machine.peers.items() if p.state == State.VERIFIED}
        for bit in sorted(verified - self._verified):
            self.on_verified(self._name(bit))
        self._verified = verified

    def _tell_silent(self, machine: PushSender) -> None:
        silent = {b for b, p in machine.peers.items() if p.state == State.SILENT}
        for bit in sorted(silent - self._silent):
            self.on_silence(self._name(bit), self.patience_ps / PS_PER_SECOND)
        for bit in sorted(self._silent - silent):
            if not machine.peers[bit].is_silent:
                self.on_silence(self._name(bit), -1)
        self._silent = silent

    def _name(self, bit: int) -> str:
        return self.fabric.by_bfr_id[bit + 1].name

    def _counted(self) -> Counted:
        after = self.ask(self.nodes)()
        own = status_of(self.fabric, self.source, self.event_loop.io, self.event_loop.node)
        return Counted(self.fabric, self.source, self.nodes, self._before(), after, own)

    def _settling(self, machine: PushSender, counted: Counted) -> Settling:
        return Settling(
            source=self.source,
            targets=frozenset(self.targets),
            entropy=self.entropy(),
            flows=(self.flow, self.flow | 1),
            before={**counted.before, **self._start} if self._is_counted_before else {},
            after=counted.after,
            book=machine.data_fan.gap_book() if machine.data_fan else GapBook(),
            again=self._ask_again,
        )

    def _ask_again(self) -> Statuses:
        """What nodes count when what was under way has come."""
        until_ps = now_ps() + SETTLE_PS
        self.event_loop.role = None  # it is counted only what still comes
        while now_ps() < until_ps:
            self.event_loop.step(until_ps)
        return self._counted().after

    def _result(
        self, role: SenderRole, end_ps: int, counted: Counted, cpu_s: float
    ) -> PushResult:
        machine = role.machine
        verified = [p.done_ps for p in machine.peers.values() if p.state == State.VERIFIED]
        began_ps = machine.data_start_ps or end_ps
        data_ps = max((max(verified) if verified else end_ps) - began_ps, 0)
        links = link_results(self.fabric, self.source, role, counted, self.flow | 1)
        lost = {self._name(b) for b, p in machine.peers.items() if p.is_silent or p.is_cut}
        return PushResult(
            name=self.manifest.name,
            source=self.source,
            flow=self.flow,
            bytes=self.manifest.total_bytes,
            n_blocks=machine.data_shape.n_blocks,
            seconds=_seconds(end_ps - machine.start_ps),
            data_seconds=_seconds(data_ps),
            goodput_bps=self.manifest.total_bytes * 8 * PS_PER_SECOND // data_ps
            if data_ps
            else 0,
            receivers=[self._receiver(machine, bit) for bit in machine.peers],
            links=links,
            feedback={"at_source": role.n_feedback, "unfolded_equivalent": role.n_merged},
            repairs={
                "packets": sum(x.repair_packets for x in links if x.src == self.source),
                "bytes": sum(x.repair_bytes for x in links if x.src == self.source),
            },
            source_link_bytes=counted.sent(self.source),
            drops=counted.drops(),
            suspects=self._suspects(lost, counted) if lost else [],
            warnings=self.warnings,
            cpu_seconds=round(cpu_s, 3),
            unheard=counted.unheard,
            weights=self.planes.weights,
            taken_over_by=self._heir(machine),
            planes=self.planes.results(
                (x.dst, x.predicted_bytes, x.bytes, x.repair_bytes)
                for x in links
                if x.src == self.source
            ),
        )

    def _suspects(self, lost: set[str], counted: Counted) -> list[str]:
        me = self.fabric.by_name[self.source].bfr_id
        dead = counted.dead(me, self.flow) | counted.dead(me, self.flow | 1)
        known = self.fabric, self.source, lost
        by_plane = [
            suspect(*known, entropy, set(self.targets), dead)
            for entropy in self.planes.entropies
        ]
        shared = [name for name in by_plane[0] if all(name in each for each in by_plane)]
        return shared or list(dict.fromkeys(name for each in by_plane for name in each))

    def _heir(self, machine: PushSender) -> str:
        """Who took the name of this push."""
        rival = rival_of(machine.peers.values())
        if rival is None:
            return ""
        node = self.fabric.by_bfr_id.get(rival.bfir_id)
        return node.name if node is not None else f"BFR-id {rival.bfir_id}"

    def _receiver(self, machine: PushSender, bit: int) -> ReceiverResult:
        peer = machine.peers[bit]
        state, error = peer.state, peer.error
        if state not in ENDED:
            state, error = State.FAILED, "interrupted: the push was stopped"
        ended = _seconds(peer.done_ps - machine.start_ps) if peer.done_ps else 0.0
        return ReceiverResult(
            id=self._name(bit),
            state=str(state),
            blake3=peer.digest.hex(),
            seconds=ended,
            error=error,
            split=peer.is_split,
            kept=machine.kept(peer),
        )


NEVER_TICK = 2**62


def _seconds(ps: int) -> float:
    return round(ps / PS_PER_SECOND, 6)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
