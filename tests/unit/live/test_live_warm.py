"""What a node calls is compiled before it serves, not in the middle of its first push."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.kernels.jit import JIT

WATCH = """
import ast, importlib, inspect, pkgutil
import fanfold.core, fanfold.live, fanfold.push
from fanfold.live.warm import warm

def calls(module):
    tree = ast.parse(inspect.getsource(module))
    inside = set()
    for f in ast.walk(tree):
        if isinstance(f, ast.FunctionDef) and "kernel" in map(ast.unparse, f.decorator_list):
            inside |= {id(n) for n in ast.walk(f)}
    for n in ast.walk(tree):
        if isinstance(n, ast.Call) and id(n) not in inside:
            head, *rest = ast.unparse(n.func).split(".")
            found = vars(module).get(head)
            for name in rest:
                found = getattr(found, name, None)
            if hasattr(found, "signatures"):
                yield ast.unparse(n.func), found

warm()
n = 0
for package in (fanfold.core, fanfold.live, fanfold.push):
    for entry in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if entry.name.startswith(("fanfold.live.rank", "fanfold.live.host_")):
            continue  # a rank loads its own kernels when it joins
        for name, found in calls(importlib.import_module(entry.name)):
            n += 1
            if not found.signatures:
                print("cold:", entry.name, name)
print(n, "calls")
"""
POST = """
import socket
from fanfold.kernels.jit import on_compile
from fanfold.live.event_loop import EventLoop
from fanfold.live.exits import post
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.live.warm import warm
from fanfold.topo.lab_fabric import leaf_spine

warm()
known = len(post.signatures)
sock = open_socket("127.0.0.1", 0, "post")
state = build_node_state(leaf_spine(1, 0, 1, name="post", prefix=0), "h1", Limits())
loop = EventLoop(sock, build_sock(sock, len(state.ports.addr)), state, None)
loop.io.exits["used"] = 1  # what is sent goes by the queue
for packet in (bytes(9), memoryview(bytes(9)), memoryview(bytearray(9))):
    loop.send(packet, 1, 9)
print(known, len(post.signatures))
"""


@pytest.mark.skipif(not JIT, reason="loads compiled code")
def test_kernels_that_nodes_call_are_loaded_before() -> None:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", WATCH], env=env, capture_output=True, text=True, check=True
    )
    *cold, last = ended.stdout.splitlines()
    assert cold == []
    assert int(last.split()[0]) >= 8


@pytest.mark.skipif(not JIT, reason="loads compiled code")
def test_a_packet_that_waits_in_a_queue_is_of_the_type_that_was_loaded() -> None:
    """By another type it was compiled for a second, and neighbours took the node for dead."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", POST], env=env, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "1 1\n"
