"""A virtual aggregation tree grown from its root: the worker that is nearest comes next.

Takahashi and Matsuyama 1980 for Steiner trees. A packet that meets the tree at a switch without
slots is not summed there and goes on along the tree, so that such a place counts as far as the
next one with slots. Then every place of the tree where two packets meet becomes a VAT node.
"""

from heapq import heappop, heappush

from fanfold.topo.vat import FAR
from fanfold.topo.vat_shape import Shape, VatNet, mend

_HOP = 2**20
"""A link; less than one of it says how many slots are in use where it leads."""


def grown_tree(ground: VatNet, root: int) -> Shape:
    """A tree with this root, which all workers have a path to."""
    growth = _Growth(ground, root)
    while growth.attach_nearest():
        pass
    shape = growth.shape()
    mend(ground, shape)
    return shape


class _Growth:
    """cost: of a packet at a router, to where it is summed next. up: the node it goes to then.

    tree: places of the tree -> the next towards the root. order: those in the order they came.
    """

    def __init__(self, ground: VatNet, root: int) -> None:
        ways = ground.ways
        self.near, self.n_hosts, self.root = ways.near, ways.n_hosts, root
        self.used, self.is_allowed = ground.used, frozenset((*ground.allowed, root))
        self.cost = [FAR * _HOP] * ways.net.n_nodes
        self.up = [root] * ways.net.n_nodes
        self.tree = {root: root}
        self.order = [root]
        self.at: dict[int, int] = {}
        self.todo = set(ground.workers)
        self.workers: dict[int, list[int]] = {}
        for worker in ground.workers:
            for router in self.near[worker]:
                self.workers.setdefault(router, []).append(worker)
        self.heap: list[tuple[int, int, int]] = []
        if root in self.todo:
            self._attach(root, root)
        self._spread([(0, root)])

    def attach_nearest(self) -> bool:
        """Add the way of the nearest worker that is not attached; False where there is none."""
        while self.heap:
            cost, worker, router = heappop(self.heap)
            if worker in self.todo and cost == self.cost[router]:
                new = []
                node = router
                while node not in self.tree:
                    new.append(node)
                    self.tree[node] = self.up[node]
                    node = self.up[node]
                self.order += reversed(new)
                self._attach(worker, router)
                self._spread([(self._base(node), node) for node in reversed(new)])
                return True
        return False

    def shape(self) -> Shape:
        """VAT nodes where packets meet and slots are left, and at the root."""
        shape = Shape(self.root, {}, {})
        waiting: dict[int, list[int]] = {place: [] for place in self.order}
        for worker, place in self.at.items():
            waiting[place].append(worker)
        for place in reversed(self.order):
            packets = waiting[place]
            is_root = place == self.root
            if is_root or (len(packets) > 1 and place in self.is_allowed):
                for sender in packets:
                    is_worker = sender < self.n_hosts
                    (shape.worker_parent if is_worker else shape.parent)[sender] = place
                packets = [place]
            if not is_root:
                waiting[self.tree[place]] += packets
        return shape

    def _attach(self, worker: int, place: int) -> None:
        self.at[worker] = place
        self.todo.discard(worker)

    def _base(self, place: int) -> int:
        """Cost of a packet at a place of the tree."""
        n_links = 0
        while place not in self.is_allowed:
            place = self.tree[place]
            n_links += 1
        return n_links * _HOP

    def _spread(self, starts: list[tuple[int, int]]) -> None:
        """Lower the costs of all routers that are now nearer to the tree."""
        heap: list[tuple[int, int]] = []
        for cost, node in starts:
            if cost <= self.cost[node]:
                self._lower(heap, cost, node)
        while heap:
            cost, node = heappop(heap)
            if cost > self.cost[node]:
                continue
            for on in self.near[node]:
                far = cost + _HOP + min(self.used[node], _HOP >> 10)
                if far < self.cost[on] and on not in self.tree:
                    self.up[on] = node
                    self._lower(heap, far, on)

    def _lower(self, heap: list[tuple[int, int]], cost: int, node: int) -> None:
        self.cost[node] = cost
        heappush(heap, (cost, node))
        for worker in self.workers.get(node, ()):
            if worker in self.todo:
                heappush(self.heap, (cost, worker, node))
