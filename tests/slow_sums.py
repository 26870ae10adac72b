"""Sums on top of fans (section 6): arrays joined on their way up, results fanned down.

Nothing is lost and every BFR has room, so nobody asks for anything twice.
"""

from collections import defaultdict
from copy import copy
from types import SimpleNamespace as Row

from slow_fans import Fans
from slow_sim import BYTE_BIT_PS, FAR

FOLD = "fold"

FIRST_CWND, MOST_CWND_KEPT, MOST_CLIMB = 16, 96, 3
ROUND_PS, QUEUE_PS, RTO_PS, MOST_SPEED = 4 * 10**9, 25 * 10**9, 10 * 10**9, 10_000
AGREED_BYTES = 64


def blocks_of(size, rules):
    """Bytes of words and exponents of each block; how many agree, and of these, ask."""
    room, window, code = rules.payload, rules.sum_window, rules.has_codes
    n = room // 5
    block = 4 * (n - n % 8 or max(n, 1)) if code else room
    asked = AGREED_BYTES + 4 * window
    first = max(min(size, window * block) // 4 - 4 * window, 0) if code else 0
    words, n_asked = cut(asked, room), len(cut(asked, room))
    words += cut(first, room)
    n_agreed = len(words)
    words += cut(size, block)
    codes = [
        words[i + window] // 4 if code and n_agreed <= i < len(words) - window else 0
        for i in range(len(words))
    ]
    return words, codes, n_agreed, n_asked


def cut(size, room):
    """Full packets and a last one."""
    return [min(room, size - at) for at in range(0, size, room)]


class Sums(Fans):
    """What ranks and routers of sums do beside fans and messages."""

    def cut(self):
        super().cut()
        self.cut_sums()

    def begin(self, one):
        self.start_rank(one) if self.items[one.item].joins else super().begin(one)

    def at_router(self, packet, node):
        (self.fold_at if packet.kind == FOLD else super().at_router)(packet, node)

    def at_host(self, packet, host):
        (self.rank_gets if packet.kind == FOLD else super().at_host)(packet, host)

    def cut_sums(self):
        """A part for each rank."""
        number = sum(map(len, self.parts))
        for i, item in enumerate(self.items):
            if item.joins:
                words, codes, n_agreed, n_asked = blocks_of(item.size, self.rules)
                self.size_of = list(zip(words, codes, strict=True))
                self.n_agreed, self.n_asked = n_agreed, n_asked
                self.members = frozenset((item.src, *item.to))
                self.rows, self.heard_of = {}, defaultdict(set)
                for rank, host in enumerate((item.src, *item.to)):
                    one = Row(item=i, host=host, is_fan=False, number=number + rank, next=0)
                    one.nic, one.make, one.is_armed = (
                        self.sum_link(host),
                        self.next_block,
                        False,
                    )
                    one.here, one.sent_at, one.srtt, one.least = set(), {}, 0, 10**12
                    one.cwnd = one.epoch = min(FIRST_CWND, self.rules.sum_window)
                    self.parts[i].append(one)
                self.clock = self.pace([one.nic for one in self.parts[i]])

    def sum_link(self, host):
        """The first link that leads to all others."""
        others = self.members - {host}
        leads = [
            k
            for k in self.paths.out[host]
            if all(self.paths.hops(self.net.dst[k], other) < FAR for other in others)
        ]
        return leads[0]

    def pace(self, nics):
        """How much faster ranks' clocks go: a round trip is 4 ms; slower where queues stand."""
        bps, trip = self.net.bps, self.paths.round_trip()
        queue = 0
        if min(bps) < max(bps[nic] for nic in nics):
            full = self.rules.payload + 92 + self.bits // 8
            queue = 3 * (FIRST_CWND * full * BYTE_BIT_PS // min(bps))
        return min(rate(ROUND_PS, trip), rate(RTO_PS, queue), key=lambda c: c[0] / c[1])

    def shown(self):
        return self.now * self.clock[0] // self.clock[1]

    def start_rank(self, one):
        """Rank 0 arms the tree, whose root is half way to the last one in another rack."""
        if one is self.parts[one.item][0]:
            leaf = self.net.dst[one.nic]
            hops = [self.paths.hops(leaf, host) for host in sorted(self.members)]
            far = [h for h in hops if h > 1]
            root_level = min((far[-1] - 1) // 2, MOST_CLIMB) if far else 0
            self.post(self.fold("arm", one, root_level=root_level), one.nic)

    def fold(self, what, one, block=0, root_level=0):
        size = 92 + self.bits // 8 + (sum(self.size_of[block]) if what == "array" else 0)
        packet = Row(
            kind=FOLD, what=what, size=size, of=one, block=block, root_level=root_level
        )
        packet.whole_ps, packet.is_up = 0, True
        packet.to = frozenset([one.host]) if what == "array" else self.members
        return packet

    def may_send_block(self, one):
        floor = next((b for b in range(one.next) if b not in one.here), one.next)
        is_early = any(one.next >= n > floor for n in (self.n_asked, self.n_agreed))
        is_open = one.next - len(one.here) < one.cwnd
        is_near = one.next - floor < self.rules.sum_window
        is_more = one.is_armed and one.next < len(self.size_of)
        return is_more and is_open and is_near and not is_early

    def next_block(self, one):
        packet = self.fold("array", one, one.next)
        one.sent_at[one.next] = self.shown()
        one.next += 1
        if not self.may_send_block(one):
            self.leave(one)
        return packet

    def fold_at(self, packet, node):
        """At a router."""
        came, is_down = self.net.back[packet.link], not packet.is_up
        if packet.what == "array" and is_down:
            self.spread(packet, node, packet.to)
        elif packet.what == "arm":
            self.arm(packet, node, came)
        elif node in self.rows:  # else it is closed
            members, up = self.rows[node]
            if packet.what == "array":
                self.join_array(packet, node, members, up)
            elif is_down or up is None:
                del self.rows[node]
                self.spread(packet, node, members)
            else:
                self.forward(packet, up)

    def arm(self, packet, node, came):
        on = self.way_on(packet, node, came) if packet.is_up and packet.root_level else None
        if on is not None:
            packet.root_level -= 1
            self.forward(packet, on)
            return
        self.rows[node] = packet.to, None if packet.is_up else came
        self.spread(packet, node, packet.to)

    def way_on(self, packet, node, came):
        """Toward the last rank behind another router than the one it came from."""
        for host in sorted(packet.to, reverse=True):
            way = self.paths.table_way(node, host, 0, 4)
            if way != came and self.net.dst[way] != host:
                return way
        return None

    def join_array(self, packet, node, members, up):
        heard = self.heard_of[node, packet.block]
        heard |= packet.to
        if heard != members:
            return
        whole = copy(packet)
        whole.to = frozenset(members)
        if up is not None:
            self.forward(whole, up)
            return
        first = self.parts[packet.of.item][0].host
        if self.items[packet.of.item].joins == "all" or packet.block < self.n_agreed:
            self.spread(whole, node, members)
            return
        self.spread(whole, node, {first})
        whole.size = 92 + self.bits // 8 + self.size_of[packet.block][1]
        self.spread(whole, node, members - {first})

    def spread(self, packet, node, hosts):
        by_link = defaultdict(set)
        for host in sorted(hosts):
            by_link[self.paths.table_way(node, host, 0, 4)].add(host)
        for link, some in by_link.items():
            one_copy = copy(packet)
            one_copy.to, one_copy.is_up = frozenset(some), False
            self.forward(one_copy, link)

    def rank_gets(self, packet, host):
        """ARM, a result, CLOSE at a host."""
        item = packet.of.item
        one = next(part for part in self.parts[item] if part.host == host)
        if packet.what == "close":
            return
        one.is_armed = True
        if packet.what == "array":
            self.take_result(one, packet.block)
            if len(one.here) == len(self.size_of):
                self.settle(item)
                self.finish(item)
                if self.item_ps[item] >= 0:
                    first = self.parts[item][0]
                    for _ in range(2):
                        self.post(self.fold("close", first), first.nic)
                return
        if self.may_send_block(one):
            self.join(one)
            self.kick(one.nic)

    def take_result(self, one, block):
        """Its window grows by half a round trip's blocks where no queue stands."""
        if block >= self.n_agreed and (
            self.items[one.item].joins == "all" or one is self.parts[one.item][0]
        ):
            self.host_ps[one.host] = self.now
        one.here.add(block)
        trip = max(self.shown() - one.sent_at[block], 1)
        one.least = min(one.least, trip)
        one.srtt += (trip - one.srtt) // 8 if one.srtt else trip
        one.epoch -= 1
        if one.epoch <= 0:
            if one.srtt > 2 * one.least + QUEUE_PS:
                one.cwnd = max(one.cwnd * 7 // 8, min(one.cwnd, MOST_CWND_KEPT))
            else:
                one.cwnd = min(one.cwnd + max(one.cwnd // 2, 1), self.rules.sum_window)
            one.epoch = one.cwnd


def rate(there, here):
    """A clock that shows ``there`` when ``here`` has passed, as a fraction."""
    if here <= there:
        return min(there // max(here, 1), MOST_SPEED), 1
    return 1, -(-here // there)
