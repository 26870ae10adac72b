"""The sending ends of fans in the simulator: the machine of ``fanfold.core``, once a block.

The compiled loop leaves upcalls (a job's last packet left, FEEDBACK came home, a deadline);
each is handed to the FanSender that also drives a live push. A data-center fabric is far faster
than the software BFRs its waits are made for, so its ``clock`` runs faster: waits
keep their proportion to the round trip (docs/simulator.md 6).
"""

from collections import deque

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fanfold.core.books import MAX_LANES
from fanfold.core.effects import Effect, ReceiverLost, SendBlock
from fanfold.core.flight import MAIN, Shape, members_of
from fanfold.core.leaving import LOST_PS, TICK_PS
from fanfold.core.nack_sender import NackSender
from fanfold.core.sender import FanSender
from fanfold.core.striped import StripedSender
from fanfold.core.tree_sender import PAUSE_SHARE, Repair, TreeSender
from fanfold.kernels.layout import (
    BITS_AT,
    INNER_BYTES,
    MAX_PSN,
)
from fanfold.kernels.slots import NEVER_PS
from fanfold.scenario.failures import new_paths_ps, protection_of
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import NO_TREE, Fan, Program
from fanfold.sim.by_hand import finish, free, join, push, wake
from fanfold.sim.fan_arrays import LANES, FanArrays
from fanfold.sim.fan_crowd import Inbound, first_window
from fanfold.sim.fan_planes import joined, striped
from fanfold.sim.loop import rows as r
from fanfold.sim.loop.alone import FIRST_ALONE, told_alone
from fanfold.sim.loop.words import SIZE
from fanfold.sim.running import Running
from fanfold.sim.waits import AGAIN_ROUNDS, fan_rounds
from fanfold.topo.byte_time import BYTE_BIT_PS
from fanfold.topo.net import Net
from fanfold.topo.routes import Routes
from fanfold.wire import bitstring, feedback
from fanfold.wire.feedback import Feedback, FeedbackFlag, FeedbackRow

I64 = NDArray[np.int64]
Rows = NDArray[np.void]
Machine = FanSender | StripedSender
POLL, POLL_OF_GAPS = 1, 2
"""A packet sent again asks all it is for; down a tree, only those whom it helps."""
MAX_QUEUED = 2
"""Jobs of a lane that wait at its port: the next block is there when one ends."""


def one_by_one(job: SendBlock) -> list[SendBlock]:
    """The same to each receiver by itself."""
    psns = members_of(job.psns)
    rows = job.bits if len(job.bits) > 1 else job.bits * len(psns)
    mine: dict[int, int] = {}
    for psn, bits in zip(psns, rows, strict=True):
        for k in members_of(bits):
            mine[k] = mine.get(k, 0) | 1 << psn
    return [replace(job, psns=mine[k], bits=(1 << k,)) for k in sorted(mine)]


class Fans(FanArrays):
    """The senders of all fans of a run, beside their arrays."""

    def __init__(
        self,
        net: Net,
        routes: Routes,
        program: Program,
        settings: Settings,
        bfr_ids: I64 | None,
        seed: int,
    ) -> None:
        super().__init__(net, routes, program, settings, bfr_ids, seed)
        n_jobs = 64 * len(self.parts)
        self.lost: list[str] = []
        self.machines: dict[int, Machine] = {}
        self._turns: dict[tuple[int, int], int] = {}
        self._strands_of: dict[tuple[int, int], list[int]] = {}
        for at, one in enumerate(self.strands):
            self._strands_of.setdefault((one.part, one.plane), []).append(at)
        self._jobs: dict[int, tuple[SendBlock, list[int]]] = {}
        self._free_jobs = deque(range(n_jobs))
        self._free_bits = deque(range(n_jobs))  # rows of BitStrings
        self._free_runs: deque[int] = deque()  # runs of 64 rows
        self._queued: dict[tuple[int, int], int] = {}
        self._wake_ps: dict[int, int] = {}
        self.inbound = Inbound(net, program)

    def follow_links(self, sim: Running, at_ps: int) -> None:
        """All hosts know of links as they stand: weights of planes and BIFTs follow."""
        self.planes.follow(sim.world.links["up"] > 0)
        self.fill_planes()
        for m, part in enumerate(self.parts):
            weights = self.planes.weights(part.fan, part.ways) if part.ways else ()
            if any(weights):
                self.weights[m] = weights
        self.shares = joined(self.strands, self.strand_shares, self.weights)
        for m, weights in enumerate(self.weights):
            if isinstance(machine := self.machines.get(m), StripedSender):
                machine.cap_bps = self.clock.shown_bps(self.shares[m].bps)
                machine.set_weights(self.clock.shown(at_ps), weights)
                push(sim.q, at_ps, m * r.N_KINDS + r.EV_WAKE)

    def deliver(self, sim: Running) -> None:
        """Hand every upcall to the sender it is for."""
        q = sim.q
        at = int(q[r.AT_UPCALLS])
        upcalls = q[at : at + 3 * int(q[r.N_UPCALLS])].reshape(-1, 3).tolist()
        q[r.N_UPCALLS] = 0
        now = int(q[r.NOW])
        for kind, m, value in upcalls:
            if kind == r.UPCALL_START:
                self._start_item(sim, m)
                continue
            word = None
            if kind == r.UPCALL_WORD:
                p, size = divmod(value, SIZE)
                word = self._word(sim, m, p, size)
                free(q, sim.world.pkts, p)
            machine = self.machines.get(m)
            if machine is None:
                continue
            out: list[Effect] = []
            if word is not None:
                machine.on_feedback(self.clock.shown(now), word, out)
            elif kind == r.UPCALL_SENT:
                self._on_sent(sim, m, value, machine)
            elif kind == r.UPCALL_WAKE:
                self._wake_ps[m] = NEVER_PS
                machine.on_timer(self.clock.shown(now), out)
            self._go_on(sim, m, machine, out)

    def _on_sent(self, sim: Running, m: int, j: int, machine: Machine) -> None:
        job, n_left = self._jobs.pop(j)
        row = sim.senders.jobs[j]
        pool = self._free_bits if row["n_rows"] == 1 else self._free_runs
        pool.append(int(row["bits_at"]))
        self._free_jobs.append(j)
        n_left[0] -= 1
        if n_left[0]:
            return
        if not job.is_repair:
            self._queued[m, job.lane] -= 1
        machine.on_sent(self.clock.shown(int(sim.q[r.NOW])), job)

    def _start_item(self, sim: Running, first: int) -> None:
        item = self.parts[first].item
        n = self.program.src.size
        self.inbound.count(sim.world.items["unreceived"][:n] > 0)
        for m in range(first, first + int(sim.world.items[item]["n_streams"])):
            self._start(m)
            for plane in range(len(self.weights[m])):
                for at in self._strands_of[m, plane]:
                    main = sim.senders.streams[self.lanes_at + at * LANES + MAIN]
                    main["next_ps"] = int(sim.q[r.NOW]) + self.shares[m].wait_ps
            self._go_on(sim, m, self.machines[m], [])

    def _start(self, m: int) -> None:
        fan, settings = self.parts[m].fan, self.settings
        bits = 0
        for host in fan.receivers:
            bits |= 1 << int(self.bfr_ids[host] - 1)
        shape = Shape(fan.n_bytes, settings.payload_bytes, settings.block_psns)
        cap = self.clock.shown_bps(self.shares[m].bps)
        rounds = fan_rounds(self.n_levels)
        queue_ps = self.crowd_ps + self.late_ps() + self.inbound.wait_ps(fan)
        wait_ps = self.clock.shown(rounds * self.rtt_ps + queue_ps)
        machine: Machine
        senders: list[FanSender]
        if len(self.parts[m].ways) > 1:
            over = striped(2 * m + 1, shape, bits, cap, self.weights[m])
            machine, senders = over, [*(plane.sender for plane in over.planes)]
        else:
            alone = self._machine(2 * m + 1, fan, shape, bits, cap)
            machine, senders = alone, [alone]
        again_ps = self.clock.shown(AGAIN_ROUNDS * self.rtt_ps + queue_ps)
        for sender, weight in zip(senders, self.weights[m], strict=True):
            sender.waits = sender.quick = wait_ps, rounds  # above deadlines of slots
            sender.slots_ps = 0
            if fan.tree == NO_TREE and self.speaks != r.PER_LOSS:
                sender.quick, sender.slots_ps = (again_ps, AGAIN_ROUNDS), wait_ps
            pace = sender.lanes[MAIN].pace
            bps = self.shares[m].bps * weight // (sum(self.weights[m]) or 1)
            pace.window_bytes = max(pace.window_bytes, first_window(bps, self.rtt_ps))
        self.machines[m] = machine
        self._wake_ps[m] = NEVER_PS

    def _machine(self, flow: int, fan: Fan, shape: Shape, bits: int, cap: int) -> FanSender:
        machine: TreeSender
        by_tree: Repair = "branch" if fan.tree == NO_TREE else self.settings.tree_repair
        if self.speaks == r.PER_LOSS:
            machine = NackSender(flow, shape, [bits], cap, repair=by_tree)
            machine.is_patient = protection_of(self.settings, self.program) != "frr"
        elif fan.tree != NO_TREE:
            machine = TreeSender(flow, shape, [bits], cap, repair=by_tree)
        else:
            return FanSender(flow, shape, [bits], cap)
        if last_ps := self._mended_ps(fan):
            most_ps = last_ps + 4 * last_ps // PAUSE_SHARE
            machine.patient_ps = self.clock.shown(most_ps) + 2 * LOST_PS
        return machine

    def _mended_ps(self, fan: Fan) -> int:
        """When the last break of a fan's tree, or of its words' way, is mended; 0: none."""
        mended = [at for at, _ in self.program.reroutes]
        if fan.tree == NO_TREE:
            if protection_of(self.settings, self.program) != "notice":
                mended.append(new_paths_ps(self.settings))
        elif len(phases := self.program.trees[fan.tree].phases) > 1:
            mended.append(phases[-1].from_ps)
        return max(mended, default=0)

    def _poll(self, fan: Fan, job: SendBlock) -> int:
        """Who is to answer a job's packets that ask: everybody, or those who lack something."""
        if self.speaks == r.PER_LOSS:
            is_for_all = job.is_ask or (job.is_last and not job.is_repair)
        else:
            is_for_all = fan.tree == NO_TREE or job.by_unicast or not job.is_repair
        return POLL if is_for_all else POLL_OF_GAPS

    def _word(self, sim: Running, m: int, p: int, size: int) -> Feedback:
        """What a packet of FEEDBACK says."""
        pkt = sim.world.pkts[p]
        path, block = int(pkt["path"]), int(pkt["psn"])
        if path >= 0:
            return self._read(path, size)
        k, fan = FIRST_ALONE - path, self.parts[m].fan
        rnd, queue, behind, n_merged, is_whole, is_part = told_alone(int(pkt["stamp"]))
        settings = self.settings
        shape = Shape(fan.n_bytes, settings.payload_bytes, settings.block_psns)
        mine, psns = 1 << k, members_of(int(sim.senders.pkt_bits[p, 0]))
        return Feedback(
            bitstring.bift_id(self.bsl, 0, k // self.n_bits),
            *(2 * m + 1, block, shape.psns(block), mine, mine if is_whole else 0),
            tuple(FeedbackRow(psn, mine) for psn in psns),
            *(FeedbackFlag.MORE if is_part else 0, rnd, queue, 255),
            worst=k + 1,
            n_merged=n_merged,
            behind=behind,
        )

    def _read(self, body: int, size: int) -> Feedback:
        at = BITS_AT + self.n_bits // 8 + INNER_BYTES
        word = feedback.decode(self.bier.bodies[body, at:size].tobytes())
        shift = bitstring.split_bift_id(word.bift_id).si * self.n_bits
        if shift == 0:
            return word
        return Feedback(
            word.bift_id,
            word.flow,
            word.block,
            word.n_psn,
            word.heard << shift,
            word.done << shift,
            tuple(FeedbackRow(row.psn, row.lacking << shift) for row in word.rows),
            word.flags,
            word.round,
            word.queue,
            word.room,
            worst=word.worst,
            n_merged=word.n_merged,
            behind=word.behind,
        )

    def _go_on(self, sim: Running, m: int, machine: Machine, out: list[Effect]) -> None:
        now = int(sim.q[r.NOW])
        while True:
            self._perform(sim, m, machine, out)
            out.clear()
            machine.fill(self.clock.shown(now), out, self._has_room)
            if not out:
                break
        if machine.is_done():
            del self.machines[m]
            finish(sim.q, sim.world.items, sim.world.deps, self.parts[m].item)
            return
        tick = TICK_PS * min(max(len(self.machines) // 8, 1), 64)
        due = max(self.clock.passed(machine.deadline_ps()), now + self.clock.passed(tick))
        if due < self._wake_ps[m]:
            self._wake_ps[m] = due
            push(sim.q, due, m * r.N_KINDS + r.EV_WAKE)

    def _perform(self, sim: Running, m: int, machine: Machine, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendBlock):
                parts = one_by_one(effect) if effect.by_unicast else [effect]
                n_left, before = [len(parts)], r.NONE
                for part in parts:
                    before = self._enlist(sim, m, machine, part, n_left, before)
            elif isinstance(effect, ReceiverLost):
                self._note_lost(m, effect)

    def _has_room(self, flow: int, lane: int) -> bool:
        m = flow >> 1
        n_links = len(self._strands_of[m, self._plane_of(m, lane)])
        return self._queued.get((m, lane), 0) < MAX_QUEUED * n_links

    def _plane_of(self, m: int, lane: int) -> int:
        """Plane of a lane of a part's machine."""
        return lane // MAX_LANES if len(self.parts[m].ways) > 1 else 0

    def _note_lost(self, m: int, effect: ReceiverLost) -> None:
        host = int(np.argmax(self.bfr_ids == effect.bit + 1))
        fan = self.parts[m].fan
        source, name = self.net.node_name(fan.source), self.net.node_name(host)
        self.lost.append(f"fan from {source}: {name} given up, {effect.reason}")

    def _enlist(
        self,
        sim: Running,
        m: int,
        machine: Machine,
        job: SendBlock,
        n_left: list[int],
        before: int,
    ) -> int:
        """Queue a job at its lane's port: repairs before what is sent for the first time.

        Args:
            n_left: jobs that were made of one, this one included, until they have left.
            before: the one of these that was queued just now, NONE for the first.

        Returns:
            Its row.
        """
        n_rows = len(job.bits)
        self._make_room(sim, n_rows)
        streams, jobs, job_bits = sim.senders.streams, sim.senders.jobs, sim.senders.job_bits
        j = self._free_jobs.popleft()
        rows = (self._free_bits if n_rows == 1 else self._free_runs).popleft()
        for row, bits in zip(range(rows, rows + n_rows), job.bits, strict=True):
            raw = bits.to_bytes(self.n_si * self.n_words * 8, "little")
            job_bits[row] = np.frombuffer(raw, np.uint64)
        jobs[j] = np.zeros(1, r.JOB_ROW)[0]
        row = jobs[j]
        row["next"], row["fan"], row["block"], row["psns"] = r.NONE, m, job.block, job.psns
        row["bits_at"], row["n_rows"] = rows, n_rows
        row["round"], row["again"] = job.round, int(job.is_repair)
        row["si"], row["left"] = self._first_set(job)
        fan = self.parts[m].fan
        s, table, n_links = self._way(sim, m, job.lane)
        row["table"] = job.round % self.n_ecmp if job.by_unicast else table
        row["poll"] = self._poll(fan, job)
        self._jobs[j] = job, n_left
        st = streams[s]
        rate = self.clock.passed_bps(machine.lane_rate_bps(job.lane))
        st["gap_ps"] = BYTE_BIT_PS * n_links // rate
        at = int(st["first_job"]) if before == r.NONE else before
        if at == r.NONE:
            st["first_job"] = j
        else:
            after = int(jobs[at]["next"])
            while after != r.NONE and (not job.is_repair or jobs[after]["again"]):
                at, after = after, int(jobs[after]["next"])
            jobs[at]["next"], row["next"] = j, after
        if not job.is_repair:
            self._queued[m, job.lane] = self._queued.get((m, job.lane), 0) + 1
        if not st["active"]:
            st["next_ps"] = max(int(st["next_ps"]), int(sim.q[r.NOW]))
            join(sim.world.links, streams, s)
        wake(sim.q, sim.world.links, int(st["nic"]))
        return j

    def _way(self, sim: Running, m: int, lane: int) -> tuple[int, int, int]:
        """Stream and table of a lane's next job, and links that its plane takes in turn."""
        plane = self._plane_of(m, lane)
        every, part = self._strands_of[m, plane], self.parts[m]
        if not part.ways:
            return self.lanes_at + every[0] * LANES + lane, self.table_of(part.fan), 1
        up = sim.world.links["up"]
        live = [at for at in every if up[self.strands[at].nic] > 0] or every
        turn = self._turns[m, plane] = self._turns.get((m, plane), -1) + 1
        own = lane - plane * MAX_LANES
        stream = self.lanes_at + live[turn % len(live)] * LANES + own
        return stream, turn % self.n_ecmp, len(live)

    def _first_set(self, job: SendBlock) -> tuple[int, int]:
        """First SI in which anybody is wanted, and the PSNs that are wanted there."""
        psns = members_of(job.psns)
        rows = job.bits if len(job.bits) > 1 else job.bits * len(psns)
        ours = (1 << self.n_bits) - 1
        for si in range(self.n_si):
            wanted = [p for p, bits in zip(psns, rows, strict=True) if bits & ours]
            if wanted:
                return si, sum(1 << p for p in wanted)
            ours <<= self.n_bits
        raise AssertionError("a job for nobody")

    def _make_room(self, sim: Running, n_rows: int) -> None:
        if not self._free_jobs:
            old = sim.senders.jobs
            jobs = np.zeros(2 * old.size, r.JOB_ROW)
            jobs[: old.size] = old
            self._free_jobs.extend(range(old.size, jobs.size))
            sim.senders = sim.senders._replace(jobs=jobs)
        if not (self._free_bits if n_rows == 1 else self._free_runs):
            self._add_bits(sim, n_rows)

    def _add_bits(self, sim: Running, n_rows: int) -> None:
        old = sim.senders.job_bits
        first = old.shape[0]
        if n_rows == 1:
            last = 2 * first
            self._free_bits.extend(range(first, last))
        else:
            last = first + 16 * MAX_PSN
            self._free_runs.extend(range(first, last, MAX_PSN))
        bits = np.zeros((last, old.shape[1]), np.uint64)
        bits[:first] = old
        sim.senders = sim.senders._replace(job_bits=bits)
