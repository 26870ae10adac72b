"""Shapes that others published, where their numbers hang on hardware that is not modelled.

V13: 256 GPUs, 512 MB all_reduce as a ring on each rail: the SimAI tutorial has 45.7 GB/s on a
rail-optimised fabric and 36.2 on a plain one, 1.26 to 1. A step of that ring is one message
from each GPU to its like in the next server, 1 MiB here. Which packets share a link decides the
rest: with all paths taken in turn we lie below that ratio, with one hash a message above it.

V14: a ring all_reduce sends 2 (n - 1) / n of the vector from each host; an all_gather by
multicast puts half as much on a host's two directions as one by a ring.
"""

import numpy as np
import pytest
from validation_world import MIB, fabric, messages

from fanfold.kernels.jit import JIT
from fanfold.scenario.settings import Settings
from fanfold.schemes.catalog import scheme_of
from fanfold.sim.simulate import simulate
from fanfold.work.collective import Collective

SERVERS, GPUS = 32, 8
RAIL = f"rail:servers={SERVERS},gpus={GPUS},spines=8,rate=400Gbps"
PLAIN = f"leaf-spine:leaves={SERVERS},spines=8,hosts={SERVERS * GPUS},rate=400Gbps"
PUBLISHED = 45.7 / 36.2
PAYLOAD = 4096
for_compiled = pytest.mark.skipif(not JIT, reason="packet by packet this is for compiled code")


def step_ps(topology, routing):
    n = SERVERS * GPUS
    program = messages(*((g, (g + GPUS) % n, MIB) for g in range(n)))
    return simulate(*fabric(topology), program, Settings(routing=routing), seed=1).end_ps


@for_compiled
def test_a_ring_on_its_rail_is_faster_than_over_spines():
    rail = step_ps(RAIL, "ecmp")
    assert rail == step_ps(RAIL, "spray")
    assert 1.0 < step_ps(PLAIN, "spray") / rail < PUBLISHED < step_ps(PLAIN, "ecmp") / rail


def host_bytes(kind, scheme, n_bytes):
    """(H, 2) data bytes out of and into each host, headers included."""
    net, routes = fabric("fat-tree:k=4")
    work = Collective(kind, n_bytes, tuple(range(net.n_hosts)))
    program = scheme_of(scheme).build(work)
    out = simulate(net, routes, program, Settings(payload_bytes=PAYLOAD), seed=1)
    data = out.link_bytes[:, 0]
    hosts = range(net.n_hosts)
    return np.array([[data[net.src == h].sum(), data[net.dst == h].sum()] for h in hosts])


@for_compiled
def test_a_ring_sends_twice_and_a_multicast_half():
    n, size = 16, 16 * PAYLOAD * 4
    payload = PAYLOAD / (PAYLOAD + 64)
    ring = host_bytes("all_reduce", "ring", size)
    assert (ring * payload == 2 * (n - 1) * size // n).all()
    by_ring = host_bytes("all_gather", "ring", size).sum(axis=1)
    by_fan = host_bytes("all_gather", "fanfold", size).sum(axis=1)
    # (n - 1) + (n - 1) shards against 1 + (n - 1), and a longer header
    assert np.allclose(by_fan / by_ring, n / (2 * (n - 1)), rtol=0.02)
