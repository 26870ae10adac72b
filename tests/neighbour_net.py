"""Nodes that watch their neighbours, in virtual time: links that are cut, lossy, one-way."""

import heapq
from collections import Counter

from fanfold.core.neighbours import Ground, LinksChanged, Neighbours, SendLink
from fanfold.core.session import Pace
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire.hello import Hello
from fanfold.wire.link import build_link, parse_link

FABRIC = 7
PACE = Pace()
WAY_PS = PS_PER_MS // 10


class Net:
    """Links by pairs of nodes; ports in the order of the pairs; every node is a BFR."""

    def __init__(self, links, pace=PACE):
        self.links, self.pace = links, pace
        n_nodes = 1 + max(n for pair in links for n in pair)
        self.near = [
            [b if a == n else a for a, b in links if n in (a, b)] for n in range(n_nodes)
        ]
        self.now, self._queue, self._n = 0, [], 0
        self.is_dead = set()  # (from, to)
        self.stopped = {}
        self.sent = Counter()  # by kind
        self.changes = []  # (time, node, failed)
        self.drop = lambda src, dst, message: False
        self.nodes = {}
        self.heard = {}
        self.due = {}
        self.n_lives = 0
        for n in range(n_nodes):
            self.start(n)

    def start(self, n):
        """A node begins a life, with nothing in its memory."""
        self.n_lives += 1
        ways = [len(self.near[n]) > 1 and len(self.near[m]) > 1 for m in self.near[n]]
        ground = Ground(FABRIC, n, self.near, ways)
        self.nodes[n] = Neighbours(self.now, ground, self.n_lives << 16 | 1, self.pace)
        self.heard[n] = [0] * (len(self.near[n]) + 1)
        self._turn(n, lambda node, out: node.on_timer(self.now, out))

    def cut(self, a, b, *, both=True):
        self.is_dead |= {(a, b), (b, a)} if both else {(a, b)}

    def heal(self, a, b):
        self.is_dead -= {(a, b), (b, a)}

    def busy(self, *nodes, is_busy=True):
        for n in nodes:
            self._turn(n, lambda node, out: node.on_busy(self.now, out, is_busy=is_busy))

    def stop(self, n, time_ps):
        """The process hears and does nothing for a while; packets wait."""
        self.stopped[n] = self.now + time_ps

    def data(self, a, b):
        """Something that is no HELLO arrives at b from a."""
        if (a, b) not in self.is_dead:
            self.heard[b][1 + self.near[b].index(a)] = self.now

    def run(self, time_ps, until=lambda: False):
        """Let time pass; how much until something holds."""
        began = self.now
        while self._queue and self._queue[0][0] <= began + time_ps and not until():
            self.now, _, what = heapq.heappop(self._queue)
            what()
        if not until():
            self.now = began + time_ps
        return self.now - began

    def failed(self):
        """What each node takes for down."""
        return [set(self.nodes[n].failed) for n in sorted(self.nodes)]

    def agree(self, *links):
        return all(failed == set(links) for failed in self.failed())

    def _at(self, when, what):
        self._n += 1
        heapq.heappush(self._queue, (when, self._n, what))

    def _turn(self, n, call):
        until = self.stopped.get(n, 0)
        if self.now < until:
            self._at(until, lambda: self._turn(n, call))
            return
        node, out = self.nodes[n], []
        node.listen(self.now, self.now, self.heard[n])
        call(node, out)
        for effect in out:
            if isinstance(effect, SendLink):
                self._send(n, effect)
            elif isinstance(effect, LinksChanged):
                self.changes.append((self.now, n, effect.failed))
        due = node.deadline_ps(self.now)
        self.due[n] = due
        self._at(due, lambda: self._on_due(n, node, due))

    def _on_due(self, n, node, due):
        if self.nodes[n] is node and self.due[n] == due:
            self._turn(n, lambda node, out: node.on_timer(self.now, out))

    def _send(self, n, effect):
        to = self.near[n][effect.port - 1]
        octets = build_link(effect.message)
        self.sent[type(effect.message)] += 1
        if (n, to) in self.is_dead or self.drop(n, to, effect.message):
            return
        self._at(self.now + WAY_PS, lambda: self._take(to, n, octets))

    def _take(self, n, src, octets):
        if self.now < self.stopped.get(n, 0):
            self._at(self.stopped[n], lambda: self._take(n, src, octets))
            return
        port = 1 + self.near[n].index(src)
        self.heard[n][port] = self.now
        message = parse_link(octets)

        def call(node, out):
            if isinstance(message, Hello):
                node.on_hello(self.now, port, message, out)
            else:
                node.on_notice(self.now, port, message, out)

        self._turn(n, call)


def settled(links, pace=PACE):
    """A net whose sessions are all up."""
    net = Net(links, pace)
    net.run(3 * PS_PER_SECOND)
    return net
