"""Fans on top of the slow simulator (section 6): copies, folded words, a sender's window."""

from collections import Counter, defaultdict, deque
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace as Row

from slow_sim import BYTE_BIT_PS, DATA, FAR, Paths, Rules, Slow, mixed

WORD = "word"
WIDTHS = (64, 128, 256, 512, 1024, 2048, 4096)
MAX_QUEUED, START_BLOCKS, MAX_BLOCKS, N_TABLES = 2, 2, 48, 4


@dataclass
class FanRules(Rules):
    """tree: "" for BIER; "ip", "mpls", "sr": what packets of trees bear."""

    block: int = 64
    folds: bool = False
    tree: str = ""
    is_each: bool = False
    sum_window: int = 0
    has_codes: bool = False


class FanPaths(Paths):
    """Tables of BIFTs and trees as well."""

    def __init__(self, net):
        super().__init__(net)
        routers = range(net.n_hosts, net.n_nodes)
        self.is_flat = all(any(net.dst[k] < net.n_hosts for k in self.out[r]) for r in routers)

    def fan_link(self, source, host):
        """The first link if it leads there, else the nearest one."""
        first = self.out[source][0]
        leads = self.hops(self.net.dst[first], host) < FAR
        return first if leads else self.first_links(source, host)[0]

    def table_way(self, router, host, table, n_tables):
        """The link of one table: odd hops by its low part, even ones by its high part."""
        ways = self.ways(router, host)
        if len(ways) == 1 or self.is_flat:
            return ways[0 if table % 2 == 0 else -1]
        is_odd = self.hops(router, host) % 2
        part = table if is_odd else table * len(ways) // n_tables
        return ways[(part + router) % len(ways)]

    def tree_link(self, source):
        """A host may also hang on a switch of its server that leads nowhere else."""
        reach = {k: sum(n < FAR for n in self.far(self.net.dst[k])) for k in self.out[source]}
        return max(reach, key=reach.__getitem__)

    def tree_way(self, router, host, source):
        """A tree is made of the first shortest paths from receivers to the source's router."""
        far = self.far(self.net.dst[self.tree_link(source)])
        up = min(self.out[host], key=lambda k: far[self.net.dst[k]])
        while (node := self.net.dst[up]) != router:
            up = next(k for k in self.out[node] if far[self.net.dst[k]] == far[node] - 1)
        return self.net.back[up]

    def round_trip(self):
        """The longest of idle ones: a full packet there, no size back, by any equal path."""
        hosts = range(self.net.n_hosts)
        pairs = [(a, b) for a in hosts for b in hosts if a != b]
        return max(self._round(k, b) for a, b in pairs for k in self.first_links(a, b))

    def _round(self, link, host):
        """From a link on."""
        node, net = self.net.dst[link], self.net
        left = 0 if node == host else max(self._round(k, host) for k in self.ways(node, host))
        return 2 * net.prop[link] + 4160 * 8 * 10**12 // net.bps[link] + left


def first_table(source, seed):
    """Number that picks the table of a source's first fan."""
    return mixed(source * 1_000_003, seed, "sim/fans")


class Fans(Slow):
    """What sources, routers and receivers of fans do beside messages."""

    paths_by = FanPaths

    def cut(self):
        self.slots, self.upcalls = {}, deque()
        self.bits = next(b for b in WIDTHS if b >= self.net.n_hosts)
        super().cut()
        self.cut_fans()

    def think(self):
        while self.upcalls:
            do, *args = self.upcalls.popleft()
            do(*args)

    def begin(self, one):
        if one.is_fan:
            self.upcalls.append((self.fill, one))
        else:
            super().begin(one)

    def at_router(self, packet, node):
        if packet.kind == WORD:
            self.word_at(packet, node)
        elif packet.of.is_fan:
            self.copies_at(packet, node)
        else:
            super().at_router(packet, node)

    def at_host(self, packet, host):
        if packet.kind == WORD:
            self.upcalls.append((self.heard, packet))
        elif packet.of.is_fan:
            self.got_of_fan(packet, host)
        else:
            super().at_host(packet, host)

    def cut_fans(self):
        """A fan has a part for each link of its source that leads to receivers."""
        items, number, rules = self.items, 0, self.rules
        mine = [i for i, item in enumerate(items) if item.is_fan]
        mine.sort(key=lambda i: (items[i].src, -items[i].size, items[i].to))
        trip, n_before = self.paths.round_trip() if mine else 0, Counter()
        for i in mine:
            src, to, size = items[i][:3]
            n = -(-size // rules.payload)
            blocks = [min(rules.block, n - b) for b in range(0, n, rules.block)]
            by_link = defaultdict(set)
            for host in to:
                nic = self.paths.fan_link(src, host)
                by_link[self.paths.tree_link(src) if rules.tree else nic].add(host)
            for nic, hosts in sorted(by_link.items()):
                one = Row(item=i, src=src, nic=nic, number=number, is_fan=True)
                one.make = self.next_of_fan
                one.to, one.blocks = frozenset(hosts), blocks
                one.table = (first_table(src, rules.seed) + n_before[src]) % N_TABLES
                one.last = size
                one.last -= (n - 1) * rules.payload
                under_way = 2 * (self.net.bps[nic] * trip // BYTE_BIT_PS)
                one.window = max(START_BLOCKS * rules.block * rules.payload, under_way)
                one.cursor = one.flying = 0
                one.jobs = deque()
                one.need = {b: set(hosts) for b in range(len(blocks))}
                one.lacks = {(h, b): n for h in hosts for b, n in enumerate(blocks)}
                one.open = dict.fromkeys(hosts, len(blocks))
                number += 1
                self.parts[i].append(one)
            n_before[src] += 1

    def next_of_fan(self, one):
        job = one.jobs[0]
        block, n = job
        is_tail = block == len(one.blocks) - 1 and n == one.blocks[block] - 1
        size = (one.last if is_tail else self.rules.payload) + 44
        size += 0 if self.rules.tree else 40 + self.bits // 8
        job[1] += 1
        if job[1] == one.blocks[block]:
            one.jobs.popleft()
            if not one.jobs:
                self.leave(one)
            self.upcalls.append((self.fill, one))
        return Row(kind=DATA, size=size, of=one, block=block, to=one.to, labels=0, whole_ps=0)

    def fill(self, one):
        """New blocks while the window, and the queue at the port, has room."""
        whole = self.rules.block * self.rules.payload
        while one.cursor < len(one.blocks) and len(one.jobs) < MAX_QUEUED:
            if one.flying + whole > max(one.window, whole):
                return
            one.flying += self.bytes_of(one, one.cursor)
            one.jobs.append([one.cursor, 0])
            one.cursor += 1
            self.join(one)
            self.look(one.nic)

    def bytes_of(self, one, block):
        is_last = block == len(one.blocks) - 1
        return one.blocks[block] * self.rules.payload + is_last * (
            one.last - self.rules.payload
        )

    def copies_at(self, packet, router):
        """A copy to each next hop, in the order of the lowest bit behind it."""
        one = packet.of
        key = router, one.item, one.number, packet.block
        if self.rules.folds and key not in self.slots:
            self.slots[key] = self.net.back[packet.link], packet.to, set()
        by_link = defaultdict(set)
        for host in sorted(packet.to):
            table = self.paths.table_way, (router, host, one.table, N_TABLES)
            tree = self.paths.tree_way, (router, host, one.src)
            find, args = tree if self.rules.tree else table
            by_link[find(*args)].add(host)
        for link, hosts in by_link.items():
            one_copy = copy(packet)
            one_copy.to, one_copy.labels = frozenset(hosts), self.labels(link, hosts, one.src)
            one_copy.size += one_copy.labels - packet.labels
            self.forward(one_copy, link)

    def labels(self, link, hosts, source):
        """A label between routers; two where the next one keeps no state of an SR tree."""
        node = self.net.dst[link]
        if node < self.net.n_hosts or self.rules.tree in ("", "ip"):
            return 0
        ways = {self.paths.tree_way(node, host, source) for host in hosts}
        keeps = len(ways) > 1 or self.net.dst[min(ways)] < self.net.n_hosts
        return 4 if keeps or self.rules.tree == "mpls" else 8

    def got_of_fan(self, packet, host):
        one = packet.of
        one.lacks[host, packet.block] -= 1
        is_whole = one.lacks[host, packet.block] == 0
        one.open[host] -= is_whole
        if is_whole and not one.open[host]:
            del one.open[host]
            self.host_ps[host] = self.now
            if not one.open:
                self.settle(one.item)
        if is_whole or (self.rules.is_each and not self.rules.folds):
            size = 52 if self.rules.tree else 92 + 3 * self.bits // 8
            word = Row(kind=WORD, size=size, of=one, block=packet.block, whole_ps=0)
            word.heard = {host} if is_whole else set()
            self.post(word, self.net.back[packet.link])

    def word_at(self, word, router):
        one = word.of
        if not self.rules.folds:
            self.forward(word, self.paths.table_way(router, one.src, 0, N_TABLES))
            return
        back, expected, heard = self.slots[router, one.item, one.number, word.block]
        heard |= word.heard
        if heard == expected:
            word.heard = set(heard)
            self.forward(word, back)

    def heard(self, word):
        """A window that is used grows by a block for each one that everybody has."""
        one, n = word.of, self.bytes_of(word.of, word.block)
        if not word.heard:
            return
        one.need[word.block] -= word.heard
        if one.need[word.block]:
            return
        del one.need[word.block]
        one.flying -= n
        if one.flying + 2 * n >= one.window:
            most = MAX_BLOCKS * self.rules.block * self.rules.payload
            one.window = min(one.window + n, most)
        self.fill(one)
        if not one.need:
            self.finish(one.item)
