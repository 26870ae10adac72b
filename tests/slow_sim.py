"""The timing model of docs/simulator.md once more, by itself: a heap, dicts, Python integers.

Networks here lose nothing, so there is no timer, no repair and no limit of a queue. Section
numbers are those of the document.
"""

import heapq
from collections import defaultdict, deque
from types import SimpleNamespace as Row

from slow_fans import Fans
from slow_net import ACK, BYTE_BIT_PS, DATA, FOLD, WIDTHS, WORD, Paths, first_path
from slow_sums import Sums


class Slow(Fans, Sums):
    """One run. item_ps: acknowledged. host_ps: received. carried: packets, bytes of a link."""

    def __init__(self, net, items, rules):
        self.net, self.items, self.rules, self.paths = net, items, rules, Paths(net)
        self.now = self.n_caused = 0
        self.events, self.upcalls = [], deque()
        self.free, self.period, self.wake = defaultdict(int), {}, {}
        self.control, self.ring, self.being_sent = defaultdict(deque), defaultdict(deque), set()
        self.carried = [[0, 0] for _ in net.src]
        self.item_ps, self.host_ps = [-1] * len(items), [0] * net.n_hosts
        self.slots, self.connections = {}, defaultdict(deque)
        self.bits = next(b for b in WIDTHS if b >= net.n_hosts)
        self.parts = [[] for _ in items]
        self.cut_messages()
        self.cut_fans()
        self.cut_sums()
        self.unsent = [len(parts) for parts in self.parts]
        self.unheard, self.needs = list(self.unsent), [set(i.needs) for i in items]
        order = sorted(
            range(len(items)), key=lambda i: (items[i].is_fan, self.parts[i][0].number)
        )
        self.place = {i: n for n, i in enumerate(order)}
        for i in order:
            if not items[i].needs:
                self.at(0, self.start, i)
        while self.events:
            self.now, _, do, *args = heapq.heappop(self.events)
            do(*args)
            while self.upcalls:
                do, *args = self.upcalls.popleft()
                do(*args)

    def at(self, when, do, *args):
        """Equal times happen in the order in which they were caused."""
        self.n_caused += 1
        heapq.heappush(self.events, (when, self.n_caused, do, *args))

    # Who sends what.

    def cut_messages(self):
        """A message goes in equal parts over links that begin a shortest path, or over one."""
        items, number = self.items, 0
        mine = [i for i, item in enumerate(items) if not (item.is_fan or item.joins)]
        n_hosts = self.net.n_hosts
        away = {i: (items[i].to[0] - items[i].src) % n_hosts for i in mine}
        mine.sort(key=lambda i: (items[i].src, away[i], items[i].size, i))
        for turn, i in enumerate(mine):
            src, (dst,), size = items[i][:3]
            n = -(-size // self.rules.payload)
            links = self.paths.first_links(src, dst)
            if not self.rules.is_sprayed:
                links = [links[turn % len(links)]]
            links = links[:n]
            for p, nic in enumerate(links):
                path = first_path(src, dst, nic, self.rules.seed)
                one = Row(item=i, src=src, dst=dst, nic=nic, number=number, path=path)
                one.sizes = [self.rules.payload] * (n // len(links) + (p < n % len(links)))
                if p == len(links) - 1:
                    one.sizes[-1] = size - (n - 1) * self.rules.payload
                one.n_sent = one.n_acked = one.n_got = 0
                one.is_fan, one.make, number = False, self.next_of, number + 1
                self.parts[i].append(one)

    def start(self, i):
        for one in self.parts[i]:
            if self.items[i].joins:
                self.start_rank(one)
                continue
            if one.is_fan:
                self.upcalls.append((self.fill, one))
                continue
            waiting = self.connections.setdefault((one.src, one.dst, one.nic), deque())
            waiting.append(one)
            if waiting[0] is one:
                self.join(one)
                self.kick(one.nic)

    # A host's port: control first, then streams in turn, one packet each (section 4).

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
        ring, control = self.ring[nic], self.control[nic]
        if self.free[nic] > self.now:
            self.look(nic)
            return
        if control:
            self.launch(control.popleft(), nic, self.now)
        elif ring:
            ring.rotate(-1)
            self.being_sent.add(nic)
            one = ring[-1]
            self.launch(one.make(one), nic, self.now)
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

    # Links: fused ports, exact times, cut-through (sections 1 and 2).

    def launch(self, packet, link, start):
        """All bytes since a port's last pause take their time together, rounded down once."""
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
            free = began = packet.whole_ps
            sent = 0
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
            at_router = {WORD: self.word_at, FOLD: self.fold_at}.get(packet.kind)
            is_copied = packet.kind == DATA and packet.of.is_fan
            (at_router or (self.copies_at if is_copied else self.pass_on))(packet, node)
        elif packet.whole_ps > self.now:
            self.at(packet.whole_ps, self.arrive, packet)
            packet.whole_ps = 0
        elif packet.kind == WORD:
            self.upcalls.append((self.heard, packet))
        elif packet.kind == ACK:
            self.acked(packet.of)
        elif packet.kind == FOLD:
            self.rank_gets(packet, node)
        else:
            (self.got_of_fan if packet.of.is_fan else self.got)(packet, node)

    def pass_on(self, packet, node):
        one = packet.of
        ways = self.paths.ways(node, one.dst if packet.kind == DATA else one.src)
        packet.path, digit = divmod(packet.path, len(ways))
        self.forward(packet, ways[digit])

    # Messages (section 5).

    def got(self, packet, host):
        one = packet.of
        one.n_got += 1
        if one.n_got == len(one.sizes):
            self.host_ps[host] = self.now
            self.settle(one.item)
        path = packet.psn * 7 + one.number * 13
        answer = Row(kind=ACK, size=self.rules.ack, of=one, path=path, whole_ps=0)
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
