"""A file by NORM (RFC 5740): a small sender and receiver on the C interface of libnorm.

    python norm_end.py send JSON       ends when all receivers have acknowledged the file
    python norm_end.py receive JSON    puts the file at its path, then goes on answering

JSON is an object of the fields of ``End``. It uses the standard library only.
"""

import json
import sys
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_int,
    c_ubyte,
    c_uint,
    c_uint32,
    c_ushort,
    c_void_p,
    create_string_buffer,
)
from pathlib import Path
from typing import Any

LIBRARY = "libnorm.so.1"
HOPS = 8
BUFFER = 64 << 20
SOCKET_BUFFER = 4 << 20
WATERMARK_COMPLETED, OBJECT_COMPLETED = 4, 20
"""Events; docs of NormEventType."""
ACKED = 3
MAX_PATH = 4096


class Event(Structure):
    """NormEvent."""

    _fields_ = (
        ("type", c_int),
        ("session", c_void_p),
        ("sender", c_void_p),
        ("object", c_void_p),
    )


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "NormCreateInstance": (c_void_p, [c_bool]),
    "NormSetCacheDirectory": (c_bool, [c_void_p, c_char_p]),
    "NormGetNextEvent": (c_bool, [c_void_p, POINTER(Event), c_bool]),
    "NormCreateSession": (c_void_p, [c_void_p, c_char_p, c_ushort, c_uint32]),
    "NormSetMulticastInterface": (c_bool, [c_void_p, c_char_p]),
    "NormSetTTL": (c_bool, [c_void_p, c_ubyte]),
    "NormSetTxRate": (None, [c_void_p, c_double]),
    "NormSetCongestionControl": (None, [c_void_p, c_bool, c_bool]),
    "NormSetGrttEstimate": (None, [c_void_p, c_double]),
    "NormSetTxSocketBuffer": (c_bool, [c_void_p, c_uint]),
    "NormSetRxSocketBuffer": (c_bool, [c_void_p, c_uint]),
    "NormStartSender": (
        c_bool,
        [c_void_p, c_ushort, c_uint32, c_ushort, c_ushort, c_ushort, c_ubyte],
    ),
    "NormStartReceiver": (c_bool, [c_void_p, c_uint32]),
    "NormAddAckingNode": (c_bool, [c_void_p, c_uint32]),
    "NormFileEnqueue": (c_void_p, [c_void_p, c_char_p, c_char_p, c_uint]),
    "NormSetWatermark": (c_bool, [c_void_p, c_void_p, c_bool]),
    "NormGetAckingStatus": (c_int, [c_void_p, c_uint32]),
    "NormFileGetName": (c_bool, [c_void_p, c_char_p, c_uint]),
}


class End:
    """One end of a session.

    Args:
        told: ``group``, ``port``, ``interface``, ``node`` (an id), ``path``; of a sender also
            ``rate_bps``, ``segment`` (bytes), ``data``, ``parity`` (packets of a block),
            ``grtt_s`` (first estimate) and ``nodes``, name -> id of receivers.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.norm = CDLL(LIBRARY)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.norm, name)
            function.restype, function.argtypes = result, arguments
        self.instance = self.norm.NormCreateInstance(False)
        where = told["group"].encode(), told["port"], told["node"]
        self.session = self.norm.NormCreateSession(self.instance, *where)
        self.norm.NormSetMulticastInterface(self.session, told["interface"].encode())
        self.norm.NormSetTTL(self.session, HOPS)

    def send(self) -> None:
        """Send the file; exit 1 names who did not acknowledge it."""
        norm, session, told = self.norm, self.session, self.told
        norm.NormSetTxRate(session, told["rate_bps"])
        norm.NormSetCongestionControl(session, False, False)
        norm.NormSetGrttEstimate(session, told["grtt_s"])
        block = told["segment"], told["data"], told["parity"]
        if not norm.NormStartSender(session, 1, BUFFER, *block, 0):
            raise SystemExit("libnorm: cannot start a sender")
        norm.NormSetTxSocketBuffer(session, SOCKET_BUFFER)
        for node in told["nodes"].values():
            norm.NormAddAckingNode(session, node)
        name = Path(told["path"]).name.encode()
        sent = norm.NormFileEnqueue(session, told["path"].encode(), name, len(name))
        norm.NormSetWatermark(session, sent, False)
        event = Event()
        while event.type != WATERMARK_COMPLETED:
            norm.NormGetNextEvent(self.instance, byref(event), True)
        states = {n: norm.NormGetAckingStatus(session, i) for n, i in told["nodes"].items()}
        late = [name for name, state in states.items() if state != ACKED]
        if late:
            raise SystemExit("\n".join(f"{name} has not acknowledged" for name in late))

    def receive(self) -> None:
        """Take the file and answer until killed."""
        norm, path = self.norm, Path(self.told["path"])
        norm.NormSetCacheDirectory(self.instance, f"{path.parent}/".encode())
        if not norm.NormStartReceiver(self.session, BUFFER):
            raise SystemExit("libnorm: cannot start a receiver")
        norm.NormSetRxSocketBuffer(self.session, SOCKET_BUFFER)
        event, name = Event(), create_string_buffer(MAX_PATH)
        while norm.NormGetNextEvent(self.instance, byref(event), True):
            if event.type == OBJECT_COMPLETED:
                norm.NormFileGetName(event.object, name, MAX_PATH)
                Path(name.value.decode()).rename(path)


if __name__ == "__main__":
    end = End(json.loads(sys.argv[2]))
    if sys.argv[1] == "send":
        end.send()
    else:
        end.receive()
