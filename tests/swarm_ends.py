"""The ends of pushes in the swarm of tests/swarm.py: senders and receivers without sockets."""

from typing import TYPE_CHECKING, Any

from swarm_disk import Disk

from fanfold.core.effects import SendBlock
from fanfold.core.flight import Shape, members_of
from fanfold.kernels import collect as c
from fanfold.push import manifest as manifests
from fanfold.push.envelope import wrap
from fanfold.push.epochs import EPOCHS_FILE, Epochs
from fanfold.push.proof import Proof
from fanfold.push.receiving import PushReceiver
from fanfold.push.sending import PushSender, SendControl
from fanfold.push.session import Outside, Session
from fanfold.push.source import build_manifest
from fanfold.topo.way_back import WaysBack
from fanfold.wire import bitstring as bs
from fanfold.wire.ask import Ask
from fanfold.wire.bier import PROTO_IPV4, BierHeader
from fanfold.wire.close import Close
from fanfold.wire.fan import Data, DataFlag
from fanfold.wire.feedback import Feedback
from fanfold.wire.inner import GROUP_ADDRESS, address_of
from fanfold.wire.packet import build
from fanfold.wire.report import Report

if TYPE_CHECKING:
    from swarm import World

STRIDE, N_PSN = 64, 4
BLOCK = STRIDE * N_PSN
FLOW_PORT = 50_000
NAME = "model.bin"


class Source:
    """One push of one host. content: what it is of."""

    def __init__(
        self, world: "World", host: str, content: bytes, epoch: int, takes_over: bool
    ) -> None:
        self.world, self.host, self.content, self.epoch = world, host, content, epoch
        path = world.folder / host / NAME
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        made, reader = build_manifest(path, STRIDE, N_PSN)
        reader.close()
        self.flow = 2 * (10 + epoch)
        nonce = epoch
        self.whole = wrap(nonce, manifests.encode(made), epoch, takes_over)
        me = world.fabric.by_name[host]
        self.bfr_id, self.addr = me.bfr_id, address_of(me.address)
        shapes = Shape(len(self.whole), STRIDE, N_PSN), Shape(len(content), STRIDE, N_PSN)
        proof = Proof(nonce, manifests.whole_digest(made), 1)
        self.machine = PushSender(world.now, self.flow, *shapes, world.ids, 0, proof)
        self.state = "runs"

    def step(self, out: list[Any]) -> None:
        """Timers and new blocks; perform what they ask for, and what came with a packet."""
        machine, now = self.machine, self.world.now
        machine.ear.listen(now, now, now)
        if now >= machine.deadline_ps():
            machine.on_timer(now, out)
        machine.fill(now, out)
        for effect in out:
            match effect:
                case SendBlock():
                    self._send(effect)
                    left_ps = max(now, self.world.busy_ps.get(self.host, 0))
                    self.world.at(left_ps, lambda job=effect: self._on_sent(job))
                case SendControl():
                    self.control(effect)

    def _on_sent(self, job: SendBlock) -> None:
        self.machine.on_sent(self.world.now, job)

    def control(self, effect: SendControl) -> None:
        self._impose(effect.bits, effect.message, b"", effect.way)

    def _send(self, job: SendBlock) -> None:
        if job.flow & 1 and not job.is_repair:
            self.world.judge_first(self, job)
        whole = self.content if job.flow & 1 else self.whole
        shape = self.machine.data_shape if job.flow & 1 else self.machine.manifest_fan.shape
        psns = members_of(job.psns)
        for i, psn in enumerate(psns):
            at = job.block * BLOCK + psn * STRIDE
            flags = DataFlag.LAST * job.is_last + DataFlag.REPAIR * job.is_repair
            if job.is_repair or i == len(psns) - 1:
                flags += DataFlag.POLL
            said = Data(
                job.flow, job.block, shape.psns(job.block), psn, STRIDE, 64, flags, job.round
            )
            bits = job.bits[i if len(job.bits) > 1 else 0]
            end = min(at + STRIDE, (job.block + 1) * BLOCK)
            self._impose(bits, said, whole[at:end], 0)

    def _impose(self, bits: int, message: Any, payload: bytes, way: int) -> None:
        header = BierHeader(
            bift_id=bs.bift_id(self.world.bsl, self.world.fabric.sub_domain, 0),
            ttl=64,
            bfir_id=self.bfr_id,
            bitstring=bits,
            entropy=(self.flow >> 1) + way,
            proto=PROTO_IPV4,
        )
        packet = build(header, self.addr, GROUP_ADDRESS, FLOW_PORT, message, payload)
        self.world.arrive(self.host, 0, packet, ())

    def hear(self, packet: bytes) -> None:
        out: list[Any] = []
        read = self.world.read(packet)
        said = read.message if read is not None else None
        match said:
            case Feedback() if said.flow | 1 == self.flow | 1:
                self.world.judge_word(self, said)
                self.machine.on_feedback(self.world.now, said, out)
            case Report():
                self.machine.on_report(self.world.now, said, out)
        self.step(out)


class Sink:
    """One receiver with its disk; the machine is made anew when it starts again."""

    def __init__(self, world: "World", host: str) -> None:
        self.world, self.host = world, host
        self.me = world.fabric.by_name[host]
        self.disk = Disk(world, host)
        self.root = self.disk.root
        self.start()

    def start(self) -> None:
        kernels = self.world.nodes[self.host].kernels
        kernels.collect = c.build_collect(16, BLOCK, 12, 4096 * 13)
        node = self.world.fabric.by_bfr_id
        self.machine = PushReceiver(
            self.me.bfr_id,
            address_of(self.me.address),
            kernels.collect,
            kernels.row,
            kernels.counters.drops,
            kernels.n_words,
            self.disk,
            Outside(
                name_of=lambda bfr_id: node[bfr_id].name,
                way_back=WaysBack(self.world.fabric, self.host).entropy,
                epochs=Epochs(self.root / ".fanfold" / EPOCHS_FILE),
            ),
        )

    def end(self) -> None:
        for session in self.machine.sessions.values():
            session.work = None  # what was going on is not finished
        self.machine.close_all()  # locks go with a process

    def take(self, port: int, packet: bytes) -> None:
        """A pass of the node has planned it for itself."""
        parsed, now = self.world.read(packet), self.world.now
        if parsed is None:
            return
        match parsed.message:
            case Ask():
                self.machine.on_ask(now, parsed, parsed.message, port, self._reply)
            case Close():
                self.machine.on_close(parsed, parsed.message)
            case Data():
                self._place(port)
                kinds = self.machine.collect.events[: self.machine.collect.n_events[0], 0]
                if c.EVENT_UNKNOWN in kinds:
                    self.machine.collect.n_events[0] = 0
                    if self.machine.on_unknown(now, parsed, port, self._reply):
                        self._place(port)
                self.machine.on_events(now, self._send_up)
        self.world.note(self)

    def step(self) -> None:
        now, machine = self.world.now, self.machine
        for session in machine.on_timer(now, self._send_up):
            self.world.note(self)
            self._report(session.port, session, machine.report_of(now, session))
        self.world.note(self)

    def _place(self, port: int) -> None:
        kernels = self.world.nodes[self.host].kernels
        where = 0, kernels.seg, len(kernels.block), port, self.world.now
        drops = kernels.counters.drops
        c.collect_pass(kernels.block, *where, kernels.plan, kernels.collect, drops)

    def _send_up(self, session: Session, packet: Any) -> None:
        self.world.note(self)
        self.world.transmit(self.host, session.port, packet.tobytes(), ())

    def _reply(self, port: int, packet: Any, report: Report) -> None:
        head = packet.header
        entropy = self.machine.outside.way_back(head.bfir_id, head.entropy)
        self._put(port, head.bfir_id, packet.inner.src, entropy, report)

    def _report(self, port: int, session: Session, report: Report) -> None:
        self._put(port, session.bfir_id, session.bfir_addr, session.entropy, report)

    def _put(self, port: int, bfir_id: int, addr: int, entropy: int, report: Report) -> None:
        header = BierHeader(
            bift_id=bs.bift_id(self.world.bsl, self.world.fabric.sub_domain, 0),
            ttl=64,
            entropy=entropy,
            proto=PROTO_IPV4,
            bfir_id=report.bfr_id,
            bitstring=1 << (bfir_id - 1),
        )
        packet = build(header, address_of(self.me.address), addr, FLOW_PORT, report)
        self.world.transmit(self.host, port, packet, ())
