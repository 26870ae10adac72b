"""A push on a live fabric as a scenario of the simulator: two fans, the manifest's first."""

import os

import msgspec
import numpy as np
from live_site import LiveLab

from fanfold.push.envelope import EPOCH_END as HEAD_BYTES
from fanfold.push.geometry import geometry_of
from fanfold.push.manifest import encode
from fanfold.push.source import build_manifest
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import ACKED, Fan, build_program
from fanfold.sim.simulate import Simulation
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.fabric_net import fabric_net
from fanfold.topo.routes import build_routes

MANIFEST, DATA = 0, 1
"""Fans of a push by number."""
N_SLOTS = 1024
"""As many as a live BFR has."""


def free_prefix():
    """Lab number that no lab of another run beside this one takes: those count from 0."""
    return 100 + os.getpid() % 100


def start_lab(site, name, fabric, *flags):
    """A lab of a fabric with all its addresses."""
    file = site.state / f"{name}.toml"
    save_fabric(fabric, file)
    return LiveLab(site, name, "--config", file, *flags)


def fabric_ids(fabric, net):
    """(H,) BFR-id of each host of the fabric's net."""
    names = [net.node_name(h) for h in range(net.n_hosts)]
    return np.array([fabric.by_name[name].bfr_id for name in names], np.int64)


def push_settings(fabric):
    """Packets as a push on this fabric makes them."""
    stride, n_psn = geometry_of(fabric.mtu, fabric.bitstring_bits)
    return Settings(
        payload_bytes=stride,
        block_psns=n_psn,
        bitstring_bits=fabric.bitstring_bits,
        n_ecmp=fabric.n_ecmp,
        n_slots=N_SLOTS,
    )


def entropy_of(flow):
    """BIER entropy of a live push by its flow."""
    return (flow >> 1) & 0xFFFFF


def push_program(fabric, net, path, source, receivers, flow):
    """What a push of a file sends: its manifest, and when all have it the data."""
    manifest, reader = build_manifest(path, *geometry_of(fabric.mtu, fabric.bitstring_bits))
    reader.close()
    index = {net.node_name(h): h for h in range(net.n_hosts)}
    sizes = (HEAD_BYTES + len(encode(manifest)), manifest.total_bytes)
    to = tuple(index[name] for name in receivers)
    fans = tuple(Fan(index[source], to, n, entropy=entropy_of(flow)) for n in sizes)
    edges = np.array([[MANIFEST, DATA]])
    return build_program(np.zeros((0, 4), np.int64), edges, fans=fans, folds=True, on=ACKED)


def simulate_push(fabric, path, source, receivers, flow, **settings):
    """Net and outcome of the same push, simulated."""
    net = fabric_net(fabric)
    program = push_program(fabric, net, path, source, receivers, flow)
    ids = fabric_ids(fabric, net)
    settings = msgspec.structs.replace(push_settings(fabric), **settings)
    sim = Simulation(net, build_routes(net), program, settings, seed=1, bfr_ids=ids)
    while sim.step():
        pass
    return net, sim.outcome()
