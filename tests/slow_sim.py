"""The timing model of docs/simulator.md for messages, by itself: a heap and Python integers.

Nothing is lost, so there is no timer, no repair and no limit of a queue. Nothing of fanfold is
imported. slow_fans.py and slow_sums.py add what routers copy and join.
"""

import hashlib
import heapq
from collections import defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace as Row
from typing import NamedTuple

FAR = 10**6
MASK = 2**64 - 1
BYTE_BIT_PS = 8 * 10**12
DATA, ACK = "data", "ack"


@dataclass
class Rules:
    """What is charged."""

    payload: int = 4096
    header: int = 64
    ack: int = 64
    switch_ps: int = 0
    is_sprayed: bool = True
    cuts: bool = False
    window: int = 0
    seed: int = 1


class Plain(NamedTuple):
    """Links sorted by the node they leave, hosts numbered first; ``back``: the other way."""

    n_hosts: int
    n_nodes: int
    src: list[int]
    dst: list[int]
    bps: list[int]
    prop: list[int]
    back: list[int]


class Paths:
    """Shortest paths of a net; hosts pass nothing on."""

    def __init__(self, net):
        self.net, self.far_from = net, {}
        self.out = [[k for k, a in enumerate(net.src) if a == n] for n in range(net.n_nodes)]

    def far(self, *targets):
        """Links from each router to the nearest of some routers."""
        if targets not in self.far_from:
            far = [0 if node in targets else FAR for node in range(self.net.n_nodes)]
            edge = deque(targets)
            while edge:
                node = edge.popleft()
                for to in (self.net.dst[k] for k in self.out[node]):
                    if to >= self.net.n_hosts and far[to] == FAR:
                        far[to] = far[node] + 1
                        edge.append(to)
            self.far_from[targets] = far
        return self.far_from[targets]

    def hops(self, node, host):
        """Links from a router to a host."""
        return 1 + self.far(*(self.net.dst[k] for k in self.out[host]))[node]

    def first_links(self, source, host):
        """A host's own links that begin a shortest path."""
        left = {k: self.hops(self.net.dst[k], host) for k in self.out[source]}
        return [k for k in left if left[k] == min(left.values())]

    def ways(self, router, host):
        """Links on shortest paths; the first one of several to the host itself."""
        net, left = self.net, self.hops(router, host)
        if left == 1:
            return [net.back[next(k for k in self.out[host] if net.dst[k] == router)]]
        routers = [k for k in self.out[router] if net.dst[k] >= net.n_hosts]
        return [k for k in routers if self.hops(net.dst[k], host) == left - 1]


def mixed(code, seed, name):
    """SplitMix64's finisher over a number and a named stream of the seed."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    code ^= int.from_bytes(digest) & MASK
    code = (code ^ code >> 30) * 0xBF58476D1CE4E5B9 & MASK
    code = (code ^ code >> 27) * 0x94D049BB133111EB & MASK
    return code ^ code >> 31


class Slow:
    """One run. item_ps: acknowledged. host_ps: received. carried: packets, bytes of a link."""

    paths_by = Paths

    def __init__(self, net, items, rules):
        self.net, self.items, self.rules, self.paths = net, items, rules, self.paths_by(net)
        self.now = self.n_caused = 0
        self.events, self.free, self.period, self.wake = [], defaultdict(int), {}, {}
        self.control, self.ring, self.being_sent = defaultdict(deque), defaultdict(deque), set()
        self.connections = defaultdict(deque)
        self.carried = [[0, 0] for _ in net.src]
        self.item_ps, self.host_ps = [-1] * len(items), [0] * net.n_hosts
        self.parts = [[] for _ in items]
        self.cut()
        self.unsent = [len(parts) for parts in self.parts]
        self.unheard, self.needs = list(self.unsent), [set(i.needs) for i in items]
        turn = [(item.is_fan, self.parts[i][0].number) for i, item in enumerate(items)]
        order = sorted(range(len(items)), key=turn.__getitem__)
        self.place = {i: n for n, i in enumerate(order)}
        for i in order:
            if not items[i].needs:
                self.at(0, self.start, i)
        while self.events:
            self.now, _, do, *args = heapq.heappop(self.events)
            do(*args)
            self.think()

    def think(self):
        """What senders of fans do between two events."""

    def at(self, when, do, *args):
        """Equal times happen in the order in which they were caused."""
        self.n_caused += 1
        heapq.heappush(self.events, (when, self.n_caused, do, *args))

    def cut(self):
        """A message goes in equal parts over links that begin a shortest path, or over one."""
        items, number, n_hosts = self.items, 0, self.net.n_hosts
        mine = [i for i, item in enumerate(items) if not (item.is_fan or item.joins)]
        away = {i: (items[i].to[0] - items[i].src) % n_hosts for i in mine}
        mine.sort(key=lambda i: (items[i].src, away[i], items[i].size, i))
        for turn, i in enumerate(mine):
            src, (dst,), size = items[i][:3]
            n = -(-size // self.rules.payload)
            links = self.paths.first_links(src, dst)
            links = links[:n] if self.rules.is_sprayed else [links[turn % len(links)]]
            for p, nic in enumerate(links):
                one = Row(item=i, src=src, dst=dst, nic=nic, number=number, is_fan=False)
                code = src * 1_000_003 + dst * 7919 + nic * 31
                one.path = mixed(code, self.rules.seed, "sim/paths") >> 33
                one.sizes = [self.rules.payload] * (n // len(links) + (p < n % len(links)))
                if p == len(links) - 1:
                    one.sizes[-1] = size - (n - 1) * self.rules.payload
                one.n_sent = one.n_acked = one.n_got = 0
                one.make, number = self.next_of, number + 1
                self.parts[i].append(one)

    def start(self, i):
        for one in self.parts[i]:
            self.begin(one)

    def begin(self, one):
        waiting = self.connections[one.src, one.dst, one.nic]
        waiting.append(one)
        if waiting[0] is one:
            self.join(one)
            self.kick(one.nic)

    def join(self, one):
        """After all that wait; who is being sent waits again when its packet has left."""
        ring = self.ring[one.nic]
        if all(other is not one for other in ring):
            ring.insert(len(ring) - (one.nic in self.being_sent), one)

    def leave(self, one):
        self.ring[one.nic].pop()  # it was served just now
        self.being_sent.discard(one.nic)

    def look(self, nic):
        """A port looks for work when it is free."""
        when = max(self.free[nic], self.now)
        if self.wake.get(nic, when + 1) > when:
            self.wake[nic] = when
            self.at(when, self.awake, nic)

    def awake(self, nic):
        if self.wake.get(nic) == self.now:
            del self.wake[nic]
            self.kick(nic)

    def kick(self, nic):
        """A host's port: control first, then streams in turn, one packet each (section 4)."""
        ring, control = self.ring[nic], self.control[nic]
        if self.free[nic] > self.now:
            self.look(nic)
            return
        if control:
            self.launch(control.popleft(), nic, self.now)
        elif ring:
            ring.rotate(-1)
            self.being_sent.add(nic)
            self.launch(ring[-1].make(ring[-1]), nic, self.now)
        if control or ring:
            self.look(nic)

    def may_send(self, one):
        """A window is of packets that were not acknowledged (section 5)."""
        is_open = not self.rules.window or one.n_sent - one.n_acked < self.rules.window
        return one.n_sent < len(one.sizes) and is_open

    def next_of(self, one):
        size = one.sizes[one.n_sent] + self.rules.header
        packet = Row(kind=DATA, size=size, of=one, psn=one.n_sent, path=one.path, whole_ps=0)
        one.n_sent += 1
        one.path += self.rules.is_sprayed
        if not self.may_send(one):
            self.leave(one)
        if one.n_sent == len(one.sizes):
            waiting = self.connections[one.src, one.dst, one.nic]
            waiting.popleft()
            if waiting:
                self.join(waiting[0])
        return packet

    def post(self, packet, nic):
        self.control[nic].append(packet)
        self.kick(nic)

    def launch(self, packet, link, start):
        """Fused ports, exact times, cut-through (sections 1, 2): rounded down once a burst."""
        bps, far = self.net.bps[link], self.net.prop[link] + self.rules.switch_ps
        began, sent = self.period.get(link, (0, 0))
        if start > self.free[link]:
            began, sent = start, 0
        cuts = self.rules.cuts and packet.kind != ACK
        head = min(self.rules.header, packet.size) if cuts else packet.size
        first = began + (sent + head) * BYTE_BIT_PS // bps
        sent += packet.size
        free = began + sent * BYTE_BIT_PS // bps
        if packet.whole_ps > free:  # its end is still to come
            free, began, sent = packet.whole_ps, packet.whole_ps, 0
        self.period[link], self.free[link] = (began, sent), free
        self.carried[link][0] += 1
        self.carried[link][1] += packet.size
        packet.link, packet.whole_ps = link, free + far if free > first else 0
        self.at(first + far, self.arrive, packet)

    def forward(self, packet, link):
        start = max(self.now, self.free[link])
        if packet.whole_ps and self.net.bps[link] > self.net.bps[packet.link]:
            start = max(start, packet.whole_ps)
        self.launch(packet, link, start)

    def arrive(self, packet):
        node = self.net.dst[packet.link]
        if node >= self.net.n_hosts:
            self.at_router(packet, node)
        elif packet.whole_ps > self.now:
            self.at(packet.whole_ps, self.arrive, packet)
            packet.whole_ps = 0
        else:
            self.at_host(packet, node)

    def at_router(self, packet, node):
        one = packet.of
        ways = self.paths.ways(node, one.dst if packet.kind == DATA else one.src)
        packet.path, digit = divmod(packet.path, len(ways))
        self.forward(packet, ways[digit])

    def at_host(self, packet, host):
        """Messages (section 5): each packet is acknowledged."""
        one = packet.of
        if packet.kind == ACK:
            self.acked(one)
            return
        one.n_got += 1
        if one.n_got == len(one.sizes):
            self.host_ps[host] = self.now
            self.settle(one.item)
        answer = Row(kind=ACK, size=self.rules.ack, of=one, whole_ps=0)
        answer.path = packet.psn * 7 + one.number * 13
        self.post(answer, self.net.back[packet.link])

    def acked(self, one):
        one.n_acked += 1
        if one.n_acked == len(one.sizes):
            self.finish(one.item)
        if self.may_send(one):
            self.join(one)
        if self.ring[one.nic]:
            self.kick(one.nic)

    def settle(self, i):
        """A part of an item was received; those who waited for all of it start in order."""
        self.unsent[i] -= 1
        freed = [j for j, needs in enumerate(self.needs) if i in needs and not self.unsent[i]]
        for j in sorted(freed, key=self.place.__getitem__):
            self.needs[j].discard(i)
            if not self.needs[j]:
                self.at(self.now, self.start, j)

    def finish(self, i):
        self.unheard[i] -= 1
        if not self.unheard[i]:
            self.item_ps[i] = self.now
