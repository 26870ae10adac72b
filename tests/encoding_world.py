"""Nets, receivers and packets for the tests of encodings."""

from functools import cache

import numpy as np

from fanfold.encodings.catalog import Order, offers_of
from fanfold.encodings.encoder import MAX_BITS, Copy, Encoder, Refusal
from fanfold.encodings.ground import Ground
from fanfold.streams import stream
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import Routes, build_routes
from fanfold.topo.sketch import LINE, Sketch

CLOS = (
    "fat-tree:k=4",
    "fat-tree:k=6",
    "leaf-spine:leaves=5,spines=3,hosts=40",
    "star:hosts=70",
)
OTHERS = (
    "rail:servers=4,gpus=4,spines=2,unit=2",
    "rail:servers=8,gpus=3,spines=2",
    "multi-plane:planes=2,leaves=4,spines=2,hosts=16",
    "dragonfly:a=4,p=2,h=2",
    "torus:dims=4x3x2",
    "ring:hosts=9",
    "random:hosts=20,degree=3",
    "wan:sites=5,hosts=4,leaves=2",
    "clustered:clusters=3,hosts=12",
    "superpod:gpus=16",
)


@cache
def ground_of(topology: str) -> Ground:
    net = build_named_net(topology)
    return Ground(net, build_routes(net))


def bare(net: Net) -> Ground:
    """A ground without routes, for encodings that need none: large nets are cheap so."""
    no = np.zeros(0, np.int32)
    empty = np.zeros((net.n_nodes - net.n_hosts, 0))
    routes = Routes(
        no, empty.astype(np.int16), empty.astype(np.int32), no.astype(np.int64), no, 1
    )
    return Ground(net, routes)


def made(name: str, ground: Ground, limit_bits: int = MAX_BITS, **order: object) -> Encoder:
    (offer,) = offers_of([name])
    asked = Order(ground, limit_bits, "naive", (), offer.n_bits)
    return offer.kind.make(asked._replace(**order))


def receivers(ground: Ground, n: int, seed: int) -> tuple[int, np.ndarray]:
    """A source, and n other hosts, rising."""
    drawn = stream(seed, "encodings/test").permutation(ground.net.n_hosts)
    return int(drawn[0]), np.sort(drawn[1 : n + 1])


def sizes_on(ground: Ground) -> tuple[int, ...]:
    """One, a few, half, nearly all, all."""
    most = ground.net.n_hosts - 1
    return tuple(sorted({1, min(5, most), most // 2, most * 4 // 5, most}))


def sent(
    name: str, ground: Ground, source: int, members: np.ndarray, limit_bits: int = MAX_BITS
) -> tuple[Encoder, list[Copy]] | None:
    """Packets, and an encoder that never saw the receivers to carry them; None if refused.

    Only rows that encode() left in switches for the group go over.
    """
    try:
        writer = made(name, ground, limit_bits)
        copies = writer.encode(source, members)
    except Refusal:
        return None
    reader = made(name, ground, limit_bits)
    if name == "elmo-s":
        reader.stored.update(writer.stored)
    return reader, copies


def fabric_of_elmo() -> Net:
    """27,648 hosts: 12 pods of 48 leaves with 48 hosts each, 4 spines a pod, 48 cores."""
    pods, leaves, hosts, spines, cores = 12, 48, 48, 4, 12
    sketch = Sketch(pods * leaves * hosts)
    leaf = sketch.add("leaf", pods * leaves, 1)
    spine = sketch.add("spine", pods * spines, 2)
    core = sketch.add("core", spines * cores, 3)
    sketch.cable(sketch.hosts, leaf[sketch.hosts // hosts], LINE)
    sketch.cable(leaf.reshape(pods, leaves, 1), spine.reshape(pods, 1, spines), LINE)
    sketch.cable(spine.reshape(pods, spines, 1), core.reshape(1, spines, cores), LINE)
    return sketch.build("elmo", sketch.hosts // hosts, sketch.hosts // (hosts * leaves))
