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
            called = n.args[0] if ast.unparse(n.func) == "bind" else n.func
            head, *rest = ast.unparse(called).split(".")
            found = vars(module).get(head)
            for name in rest:
                found = getattr(found, name, None)
            if hasattr(found, "signatures"):
                yield ast.unparse(called), found

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

from fanfold.live import event_loop, pump
from fanfold.live.event_loop import EventLoop
from fanfold.live.exits import post
from fanfold.live.ports import Limits, build_node_state, build_sock, open_socket
from fanfold.topo.lab_fabric import leaf_spine

known = len(post.signatures)
sock = open_socket("127.0.0.1", 0, "post")
state = build_node_state(leaf_spine(1, 0, 1, name="post", prefix=0), "h1", Limits())
loop = EventLoop(sock, build_sock(sock, len(state.ports.addr)), state, None)
loop.io.exits["used"] = 1  # what is sent goes by the queue
for packet in (bytes(9), memoryview(bytes(9)), memoryview(bytearray(9))):
    loop.send(packet, 1, 9)
loop.step(0)
bound = []
event_loop.bind = lambda fn, *args: bound.append(args) or fn
loop.step(0)
before = len(bound)
loop.io = loop.io._replace(tap=loop.io.tap.copy())
loop.step(0)
loop.step(0)
print(before, len(bound), len(pump.serve.signatures), known, len(post.signatures))
"""


pytestmark = pytest.mark.skipif(not JIT, reason="loads compiled code")


@pytest.fixture(scope="module")
def said() -> list[str]:
    """Of one process: which calls are cold, how many there are, and types of ``post``."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    ended = subprocess.run(
        [sys.executable, "-c", WATCH], env=env, capture_output=True, text=True, check=True
    )
    return ended.stdout.splitlines()


def test_kernels_that_nodes_call_are_loaded_before(said: list[str]) -> None:
    *cold, last = said[:-1]
    assert cold == []
    assert int(last.split()[0]) >= 8


def test_what_a_loop_works_on_is_of_the_types_that_were_loaded(said: list[str]) -> None:
    """By another type it was compiled for a second, and neighbours took the node for dead."""
    assert said[-1].split()[2:] == ["1", "1", "1"]


def test_a_loop_looks_at_types_again_where_its_arrays_are_others(said: list[str]) -> None:
    """Compiled code that takes an array for one of another type reads what is not there."""
    assert said[-1].split()[:2] == ["0", "1"]
