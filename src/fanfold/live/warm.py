"""Load every kernel a node calls, so that forked nodes share the compiled code.

Compiles on the first run after a change (25 s of one core), afterwards reads the cache. Each
kernel is called once on empty arrays of the types the nodes use: one that is left out, or of
another type, is compiled by every node in the middle of its first push, and neighbours take it
for dead meanwhile. Of processes that start together on an
empty cache one compiles a kernel, the others wait for it (kernels/kept.py).
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from fanfold.kernels.collect import build_collect, collect_pass
from fanfold.kernels.due import due_reports
from fanfold.kernels.jit import JIT, cache_dir
from fanfold.kernels.layout import MAX_PSN
from fanfold.kernels.speak import WHOLE_ROW, speak
from fanfold.kernels.spread import is_ours
from fanfold.kernels.state import build_fold
from fanfold.kernels.vat import build_vats
from fanfold.kernels.vat_rows import close_group, open_vat
from fanfold.live import pump as p
from fanfold.live.birth import Say, nobody
from fanfold.live.compile_notice import telling_compiles
from fanfold.live.exits import QUEUE_BYTES, post
from fanfold.live.pieces import build_job, send_pieces
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.live.sock import Sock
from fanfold.live.trailers_out import seal_one
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.lab_fabric import leaf_spine

DONE = "warm.done"


def is_compiled() -> bool:
    """Nothing is left to compile: a first run on this machine, or after a change, has some."""
    return not JIT or (cache_dir("live") / DONE).exists()


def warm(say: Say = nobody) -> None:
    """Compile or load; sends nothing. ``say`` is told of work that takes long."""
    if is_compiled():
        load_all(nobody)
        return
    load_all(say)
    with suppress(OSError):  # numba had no place to keep it either
        (cache_dir("live") / DONE).touch()


def load_all(say: Say) -> None:
    """Call every kernel that a node calls, saying which is compiled or waited for."""
    fabric = leaf_spine(1, 0, 1, name="warm", prefix=0)
    sock = open_socket("127.0.0.1", 0, "warm")
    try:
        io = build_sock(sock)
        node = build_node_state(fabric, "h1", Limits(blocks=1, block_bytes=64, chunks=1))
        routes = FabricRoutes(fabric)
        steps = _steps(io, node) | {"next hop": lambda: routes.next_hop("h1", "h0", 0)}
        for i, (name, call) in enumerate(steps.items(), 1):
            with telling_compiles(say, f"{name}, {i} of {len(steps)}"):
                call()
    finally:
        sock.close()


def _steps(io: Sock, node: p.Node) -> dict[str, Callable[[], object]]:
    nothing = np.zeros(64, np.uint8)
    words = np.zeros(4, np.uint64)
    collect = node.collect

    def load_post() -> None:
        io.exits["used"] = 1  # nothing leaves
        post(io, 1, 0, 0, np.frombuffer(bytes(QUEUE_BYTES), np.uint8))
        io.exits["used"] = io.exits["full_ps"] = 0

    def load_speak() -> None:
        collect.follow[0]["bift_id"], collect.follow[0]["bfir_id"] = 0x30000, 1
        out, own = np.zeros(4096, np.uint8), build_fold(1, 4)
        speak(collect, 0, 0, WHOLE_ROW, node.row, 0, own, MAX_PSN, out)

    return {
        "serve": lambda: p.serve(io, node, 1, 0),
        "post": load_post,
        "trailers": lambda: seal_one(io, 1, 0, np.frombuffer(bytes(8), np.uint8), nothing),
        "transmit": lambda: p.transmit(io, node, nothing, 0, 64),
        "collect": lambda: collect_pass(
            nothing, 0, 64, 0, 0, 0, node.plan, collect, node.counters.drops
        ),
        "due reports": lambda: due_reports(
            build_collect(1, 64, 1, 1), 0, 0, np.zeros(1, np.int64)
        ),
        "speak": load_speak,
        "ports": lambda: is_ours(0),
        "open vat": lambda: open_vat(
            build_vats(1, 1, 4, 64), 0, 0, 1, words, 4, 0x30000, 1, 0, 0
        ),
        "close group": lambda: close_group(build_vats(1, 1, 4, 64), 0),
        "pieces": lambda: send_pieces(io, node, build_job(128, 64, 4), 0),
    }
