"""Random loss on arrival at network devices: an eBPF program at their tcx hook, without tools.

Loss belongs on arrival: what is dropped on departure is told to the sender, which repeats it.
The program is loaded by the bpf() system call and is gone with its descriptors, so nothing is
left when the measuring process dies. Needs root and Linux 6.6.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

from fanfold.errors import EnvironmentLack
from fanfold.live.spaces import inside
from fanfold.units import PPB_ONE

SYS_BPF = {"x86_64": 321, "aarch64": 280}
MAP_CREATE, MAP_LOOKUP, PROG_LOAD, LINK_CREATE = 0, 1, 5, 28
MAP_ARRAY, PROG_SCHED_CLS, TCX_INGRESS = 2, 3, 46
PASS, DROP = 0, 2
MAP_LOOKUP_ELEM, GET_PRANDOM_U32 = 1, 7

_libc = ctypes.CDLL(None, use_errno=True)


class LossError(EnvironmentLack):
    """This kernel cannot drop packets so."""


class Loss:
    """Loss at devices: each packet that arrives is dropped with the same chance."""

    def __init__(self, loss_ppb: int, devices: Sequence[tuple[str, int]]) -> None:
        """loss_ppb: of 10^9 packets, below half. devices: namespace and number of each."""
        self._fds: list[int] = []
        try:
            self._counts = self._keep(MAP_CREATE, struct.pack("=4I", MAP_ARRAY, 4, 8, 1))
            program = self._load(_program(loss_ppb, self._counts))
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


def _bpf(command: int, words: bytes) -> int:
    number = SYS_BPF.get(platform.machine())
    if number is None:
        raise LossError(f"{platform.machine()} is none of {', '.join(SYS_BPF)}")
    room = ctypes.create_string_buffer(words, len(words))
    got = int(_libc.syscall(number, command, room, len(words)))
    if got < 0:
        raise LossError(f"bpf: {os.strerror(ctypes.get_errno())}; loss needs Linux 6.6")
    return got


def _program(loss_ppb: int, counts: int) -> bytes:
    """Drop with a chance, and count what is dropped in element 0 of an array."""
    return b"".join(
        [
            _insn(0x85, imm=GET_PRANDOM_U32),
            _insn(0xA5, off=2, imm=(loss_ppb << 32) // PPB_ONE),  # lost when below
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
