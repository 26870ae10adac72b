"""A net as the layers of a Clos: leaves under hosts, spines of a pod, cores above all pods.

Encodings that write layers, not trees, need just that: one link for each host, every spine
linked once to every leaf of its pod and to no other leaf, every core to every pod. Spines of a
pod then count as one logical spine, cores as one core (Elmo, section 3.1).
"""

import numpy as np
from numpy.typing import NDArray

from fanfold.encodings.encoder import Refusal
from fanfold.encodings.ground import Ground

I64 = NDArray[np.int64]


class Clos:
    """Places of hosts, leaves and pods, all numbered from 0.

    leaf_of, place_of: (H,) leaf of a host and its place there. pod_of: (leaves,) pod of a
    leaf, slot_of: its place there. n_tiers: 1 to 3.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground, net = ground, ground.net
        self.n_tiers = int(net.tier.max())
        self._tier: list[int] = net.tier.tolist()
        self._up: dict[int, list[int]] = {}
        self._down: dict[int, dict[int, int]] = {}
        self._pod: dict[int, int] = {}
        self._check_layers()
        self.home = net.dst[net.first_out[: net.n_hosts]]
        self.leaves, self.leaf_of = np.unique(self.home, return_inverse=True)
        self.place_of = _places(self.leaf_of)
        self.leaf_number = {int(n): i for i, n in enumerate(self.leaves.tolist())}
        self.pod_of = self._pods()
        self.slot_of = _places(self.pod_of)
        self._check_full()

    @property
    def n_leaves(self) -> int:
        """Leaves of all pods."""
        return int(self.leaves.size)

    @property
    def n_pods(self) -> int:
        """Pods; one where there is no core."""
        return int(self.pod_of.max()) + 1

    @property
    def n_places(self) -> int:
        """Hosts below the fullest leaf."""
        return int(self.place_of.max()) + 1

    @property
    def n_slots(self) -> int:
        """Leaves of the largest pod."""
        return int(self.slot_of.max()) + 1

    def n_up(self, tier: int) -> int:
        """Links up of the best connected switch of a layer."""
        net = self.ground.net
        is_up = (net.tier[net.src] == tier) & (net.tier[net.dst] == tier + 1)
        return int(np.bincount(net.src[is_up], minlength=1).max())

    def tier(self, node: int) -> int:
        """0 for hosts, 1 leaves, 2 spines, 3 cores."""
        return self._tier[node]

    def pod(self, node: int) -> int:
        """Pod of a leaf or a spine."""
        if node not in self._pod:
            leaf = node if self.tier(node) == 1 else self.ground.dst[self._links(node, 1)[0]]
            self._pod[node] = int(self.pod_of[self.leaf_number[leaf]])
        return self._pod[node]

    def up_links(self, node: int) -> list[int]:
        """Links to the layer above."""
        if node not in self._up:
            self._up[node] = self._links(node, self.tier(node) + 1)
        return self._up[node]

    def down_links(self, node: int) -> dict[int, int]:
        """Link by place, slot or pod, as the switch is a leaf, a spine or a core.

        Of several links to one pod the first.
        """
        if node not in self._down:
            found: dict[int, int] = {}
            for link in self._links(node, self.tier(node) - 1):
                found.setdefault(self.index(self.ground.dst[link]), link)
            self._down[node] = found
        return self._down[node]

    def spines_of(self, pod: int) -> list[int]:
        """Spines of a pod, by node."""
        leaf = int(self.leaves[np.argmax(self.pod_of == pod)])
        return [self.ground.dst[link] for link in self.up_links(leaf)]

    def index(self, node: int) -> int:
        """Place of a host, slot of a leaf, pod of a spine: where it hangs from above."""
        match self.tier(node):
            case 0:
                return int(self.place_of[node])
            case 1:
                return int(self.slot_of[self.leaf_number[node]])
            case _:
                return self.pod(node)

    def _links(self, node: int, tier: int) -> list[int]:
        first = self.ground.first_link(node)
        links = range(first, first + self.ground.n_ports(node))
        return [link for link in links if self.tier(self.ground.dst[link]) == tier]

    def _check_layers(self) -> None:
        net = self.ground.net
        if self.n_tiers > 3:
            raise Refusal(f"a Clos of up to 3 layers, not {self.n_tiers}")
        if (np.diff(net.first_out[: net.n_hosts + 1]) != 1).any():
            raise Refusal("a Clos in which each host has one link")
        if (np.abs(net.tier[net.src] - net.tier[net.dst]) != 1).any():
            raise Refusal("a Clos: links only between one layer and the next")

    def _pods(self) -> I64:
        """Leaves that share a spine are one pod."""
        net = self.ground.net
        label = np.arange(net.n_nodes)
        is_low = (net.tier[net.src] == 1) & (net.tier[net.dst] == 2)
        leaf, spine = net.src[is_low], net.dst[is_low]
        while True:
            before = label.copy()
            np.minimum.at(label, spine, label[leaf])
            np.minimum.at(label, leaf, label[spine])
            if (label == before).all():
                break
        _, pods = np.unique(label[self.leaves], return_inverse=True)
        found: I64 = pods.reshape(-1)
        return found

    def _check_full(self) -> None:
        net = self.ground.net
        pod = np.zeros(net.n_nodes, np.int64)
        pod[self.leaves] = self.pod_of
        is_low = (net.tier[net.src] == 1) & (net.tier[net.dst] == 2)
        pod[net.dst[is_low]] = pod[net.src[is_low]]
        pairs = np.unique(np.stack([net.src[is_low], net.dst[is_low]]), axis=1)
        n_leaves = np.bincount(net.dst[is_low], minlength=net.n_nodes)
        spines = np.nonzero(net.tier == 2)[0]
        want = np.bincount(self.pod_of)[pod[spines]]
        if pairs.shape[1] != is_low.sum() or (n_leaves[spines] != want).any():
            raise Refusal("a Clos: from every spine one link to each leaf of its pod")
        is_high = (net.tier[net.src] == 3) & (net.tier[net.dst] == 2)
        reached = np.unique(np.stack([net.src[is_high], pod[net.dst[is_high]]]), axis=1)
        n_pods = np.bincount(reached[0], minlength=net.n_nodes)
        if (n_pods[net.tier == 3] != self.n_pods).any():
            raise Refusal("a Clos in which every core reaches every pod")


def clos_of(ground: Ground) -> Clos:
    """The layers of a net, found once for a ground.

    Raises:
        Refusal: it is no Clos.
    """
    if ground.clos is None:
        ground.clos = Clos(ground)
    assert isinstance(ground.clos, Clos)
    return ground.clos


def _places(group: I64) -> I64:
    """Place of each member in its group, from 0."""
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    place = np.empty_like(order)
    place[order] = np.arange(order.size) - first[group[order]]
    return place
