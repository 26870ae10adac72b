"""What must hold of a program before anybody runs it."""

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.kernels.jit import kernel
from fanfold.schemes.program import Program
from fanfold.topo.net import Net

I64 = NDArray[np.int64]


def planes_note(program: Program, net: Net, asked: str) -> str:
    """Which planes fans, trees and sums leave idle; empty where none do.

    Messages are split over all links of their host; a fan or sum goes by one.

    Args:
        asked: planes that fans by BIFTs are dealt to, empty for none.
    """
    n_planes = int(net.plane.max(initial=0)) + 1
    if n_planes < 2 or not (program.fans or program.sums):
        return ""
    if not asked:
        return f"fans and sums use one plane of {n_planes}"
    if program.sums or program.trees:
        return f"sums and trees use one plane of {n_planes}"
    return "" if asked == "auto" else f"planes {asked} of {n_planes}"


def check_program(program: Program, n_hosts: int) -> None:
    """Refuse hosts that do not exist, items without bytes, and what ``check_order`` refuses.

    Raises:
        ConfigError: the first fault, by item.
    """
    for f, (src, dst) in _first_faults(program, n_hosts):
        got = f"host {src} to host {dst}, {program.n_bytes[f]} bytes"
        allowed = f"two different hosts below {n_hosts}, 1 byte or more"
        raise ConfigError(f"message {f}", got, allowed)
    for m, fan in enumerate(program.fans):
        hosts = np.array([fan.source, *fan.receivers], np.int64)
        is_right = hosts.min() >= 0 and hosts.max() < n_hosts and fan.n_bytes >= 1
        if not is_right or np.unique(hosts).size < hosts.size or hosts.size < 2:
            got = f"host {fan.source} to {len(fan.receivers)} hosts, {fan.n_bytes} bytes"
            allowed = f"receivers below {n_hosts}, each once, not the source, 1 byte or more"
            raise ConfigError(f"fan {m}", got, allowed)
    for a, one in enumerate(program.sums):
        members = np.array(one.hosts, np.int64)
        is_right = members.size > 1 and members.min() >= 0 and members.max() < n_hosts
        if not is_right or np.unique(members).size < members.size or one.n_bytes < 1:
            got = f"{members.size} hosts, {one.n_bytes} bytes"
            allowed = f"two or more below {n_hosts}, each once, 1 byte or more"
            raise ConfigError(f"sum {a}", got, allowed)
    if program.pauses_ps.min(initial=0) < 0:
        m = int(np.argmax(program.pauses_ps < 0))
        raise ConfigError(f"pause {m}", int(program.pauses_ps[m]), "0 ps or more")
    check_order(program)


def check_order(program: Program) -> None:
    """Refuse a program in which an item waits, in the end, for itself.

    Linear in items and dependencies.

    Raises:
        ConfigError: a dependency on an item that does not exist, or a number of needs that no
            item fulfils, or a cycle, by the first item that could never start.
    """
    n = program.n_items
    if program.dep.size and not 0 <= program.dep.min() <= program.dep.max() < n:
        raise ConfigError("program", int(program.dep.max()), f"items 0..{n - 1}")
    if program.shift:  # each piece waits for an earlier one: a ring is no cycle
        return
    left = program.n_needs.copy()
    n_started = start_all(program.first_dep, program.dep, left, np.empty(n, np.int64))
    if n_started < n:
        item = int(np.argmax(left > 0))
        got = "waits for itself or for nothing"
        raise ConfigError(_name_of(program, item), got, "needs that can come true")


def _name_of(program: Program, item: int) -> str:
    n = program.src.size
    if item < n:
        return f"message {item}"
    if item < program.first_sum:
        return f"fan {item - n}"
    n_sent = program.n_sent
    return f"sum {item - program.first_sum}" if item < n_sent else f"pause {item - n_sent}"


def _first_faults(program: Program, n_hosts: int) -> list[tuple[int, tuple[int, int]]]:
    ends = np.stack([program.src, program.dst])
    is_wrong = (ends < 0).any(axis=0) | (ends >= n_hosts).any(axis=0)
    is_wrong |= (program.src == program.dst) | (program.n_bytes < 1)
    faults = np.nonzero(is_wrong)[0][:1]
    return [(int(f), (int(program.src[f]), int(program.dst[f]))) for f in faults]


@kernel
def start_all(first_dep: I64, dep: I64, left: I64, ready: I64) -> int:
    """Start what can start, until nothing more can.

    Args:
        first_dep: (I + 1,), dep: as in a program. left: (I,) needs, counted down. ready: (I,)
            room.

    Returns:
        Items that started.
    """
    n_ready = 0
    for i in range(left.size):
        if left[i] == 0:
            ready[n_ready] = i
            n_ready += 1
    k = 0
    while k < n_ready:
        i = ready[k]
        for j in range(first_dep[i], first_dep[i + 1]):
            left[dep[j]] -= 1
            if left[dep[j]] == 0:
                ready[n_ready] = dep[j]
                n_ready += 1
        k += 1
    return n_ready
