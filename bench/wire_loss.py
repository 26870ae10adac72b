"""Random loss on arrival at network devices, without tools: an eBPF program at their tcx hook.

Loss belongs on arrival: what is dropped on departure is told to the sender, which repeats it.
The program is loaded by the bpf() system call and is gone with its descriptors, so nothing is
left when the measuring process dies. Needs root and Linux 6.6.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jobs import JobError

SYS_BPF = {"x86_64": 321, "aarch64": 280}
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, LINK_CREATE = 0, 1, 5, 28
MAP_ARRAY, PROG_SCHED_CLS, TCX_INGRESS = 2, 3, 46
PASS, DROP = 0, 2
MAP_LOOKUP_ELEM, GET_PRANDOM_U32 = 1, 7
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


class LossError(JobError):
    """This kernel cannot drop packets so."""


class Loss:
    """Loss at devices: each packet that arrives is dropped with the same chance."""

    def __init__(self, chance: float, devices: Sequence[tuple[str, int]]) -> None:
        """devices: namespace and number of each device."""
        self._fds: list[int] = []
        try:
            self._counts = self._keep(MAP_CREATE, struct.pack("=4I", MAP_ARRAY, 4, 8, 1))
            program = self._load(_program(chance, self._counts))
            for name, number in devices:
                with inside(name):
                    at = struct.pack("=4I", program, number, TCX_INGRESS, 0)
                    self._keep(LINK_CREATE, at)
        except BaseException:
            self.close()
            raise

    def count(self) -> int:
        """Packets dropped so far."""
        key, value = ctypes.c_uint32(0), ctypes.c_uint64(0)
        places = ctypes.addressof(key), ctypes.addressof(value)
        _bpf(MAP_LOOKUP, struct.pack("=IIQQQ", self._counts, 0, *places, 0))
        return value.value

    def close(self) -> None:
        """Let everything through again."""
        while self._fds:
            os.close(self._fds.pop())

    def _load(self, program: bytes) -> int:
        text, licence = (
            ctypes.create_string_buffer(program),
            ctypes.create_string_buffer(b"GPL"),
        )
        places = ctypes.addressof(text), ctypes.addressof(licence)
        words = struct.pack("=IIQQ", PROG_SCHED_CLS, len(program) // 8, *places)
        return self._keep(PROG_LOAD, words + bytes(44) + struct.pack("=I", TCX_INGRESS))

    def _keep(self, command: int, words: bytes) -> int:
        self._fds.append(_bpf(command, words))
        return self._fds[-1]


@contextmanager
def inside(name: str) -> Iterator[None]:
    """This thread in a named network namespace."""
    with Path("/proc/thread-self/ns/net").open("rb") as own:
        with Path(f"/run/netns/{name}").open("rb") as there:
            _enter(there.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET):
        raise JobError(f"setns: {os.strerror(ctypes.get_errno())}")


def _bpf(command: int, words: bytes) -> int:
    number = SYS_BPF.get(platform.machine())
    if number is None:
        raise LossError(f"{platform.machine()} is none of {', '.join(SYS_BPF)}")
    room = ctypes.create_string_buffer(words, len(words))
    got = int(_libc.syscall(number, command, room, len(words)))
    if got < 0:
        raise LossError(f"bpf: {os.strerror(ctypes.get_errno())}; loss needs Linux 6.6")
    return got


def _program(chance: float, counts: int) -> bytes:
    """Drop with a chance below 1/2, and count what is dropped in element 0 of an array."""
    return b"".join(
        [
            _insn(0x85, imm=GET_PRANDOM_U32),
            _insn(0xA5, off=2, imm=int(chance * 2**32)),  # lost when below
            _insn(0xB7, imm=PASS),
            _insn(0x95),
            _insn(0x62, dst=10, off=-4),  # key 0 on the stack
            _insn(0xBF, dst=2, src=10),
            _insn(0x07, dst=2, imm=-4),
            _insn(0x18, dst=1, src=1, imm=counts),  # address of the array, two words
            _insn(0),
            _insn(0x85, imm=MAP_LOOKUP_ELEM),
            _insn(0x15, off=2),  # none: cannot be, but the kernel asks for it
            _insn(0xB7, dst=1, imm=1),
            _insn(0xDB, src=1),  # add 1 at once
            _insn(0xB7, imm=DROP),
            _insn(0x95),
        ]
    )


def _insn(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    return struct.pack("=BBhi", code, dst | src << 4, off, imm)
