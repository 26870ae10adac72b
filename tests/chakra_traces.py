"""Three small Chakra traces, written with whatever messages are handed in.

``python tests/chakra_traces.py et_def.proto`` writes tests/unit/work/traces anew with the
messages that protoc makes of the published schema (needs grpcio-tools); the tests hold our own
table of field numbers against those bytes.
"""

import importlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent / "unit" / "work" / "traces"
GROUPS = {"tp0": [0, 1], "tp1": [2, 3], "dp0": [0, 2], "dp1": [1, 3]}
META, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLL = range(1, 8)
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST = range(6)
ALL_TO_ALL, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, BARRIER = range(6, 10)


class Writer:
    """Nodes of one rank; each waits for the one before it unless told otherwise."""

    def __init__(self, pb):
        self.pb = pb
        self.n = 0
        self.messages = [pb.GlobalMetadata(version="1.0.0")]

    def node(self, kind, name, *, after=None, us=0, **attrs):
        node = self.pb.Node(id=self.n, name=name, type=kind, duration_micros=us)
        before = [self.n - 1] if self.n else []
        node.data_deps.extend(before if after is None else after)
        node.attr.append(self.pb.AttributeProto(name="is_cpu_op", bool_val=False))
        for key, value in attrs.items():
            field = {
                "comm_size": "int64_val",
                "comm_type": "int64_val",
                "tensor_size": "uint64_val",
                "num_ops": "int64_val",
                "pg_name": "string_val",
            }.get(key, "int32_val")
            node.attr.append(self.pb.AttributeProto(name=key, **{field: value}))
        self.messages.append(node)
        self.n += 1
        return node.id

    def stream(self):
        found = b""
        for message in self.messages:
            body = message.SerializeToString()
            size, head = len(body), b""
            while size >= 0x80:
                head += bytes([size & 0x7F | 0x80])
                size >>= 7
            found += head + bytes([size]) + body
        return found


def step(pb):
    """Four ranks, tensor parallel by two, data parallel by two: one layer and its gradients."""
    files = {"step.json": (json.dumps(GROUPS) + "\n").encode()}
    for rank in range(4):
        w, tp, dp = Writer(pb), f"tp{rank // 2}", f"dp{rank % 2}"
        w.node(META, "start")
        w.node(COMP, "forward", us=100)
        w.node(COLL, "tp sum", comm_type=ALL_REDUCE, comm_size=1 << 20, pg_name=tp)
        w.node(COMP, "backward", us=200 + rank)
        w.node(COLL, "gradients", comm_type=ALL_REDUCE, comm_size=1 << 22, pg_name=dp)
        w.node(COLL, "weights", comm_type=BROADCAST, comm_size=1 << 20, comm_src=3)
        w.node(COMP, "update", us=10)
        files[f"step.{rank}.et"] = w.stream()
    return files


def pipeline(pb):
    """Three stages, two micro-batches there and back, by send and recv."""
    files = {}
    for rank in range(3):
        w = Writer(pb)
        first = w.node(COMP, "load", us=5)
        fronts = []
        for batch in range(2):
            last = [first] if not fronts else [fronts[-1]]
            if rank > 0:
                got = w.node(
                    RECV, "in", after=[first], comm_src=rank - 1, comm_tag=batch, comm_size=4096
                )
                last.append(got)
            fronts.append(w.node(COMP, "forward", after=last, us=20))
            if rank < 2:
                w.node(
                    SEND,
                    "out",
                    after=[fronts[-1]],
                    comm_dst=rank + 1,
                    comm_tag=batch,
                    comm_size=4096,
                )
        w.node(COMP, "done", after=fronts, us=1)
        files[f"pipeline.{rank}.et"] = w.stream()
    return files


def collectives(pb):
    """Each type of collective once, and memory."""
    files = {}
    for rank in range(4):
        w = Writer(pb)
        w.node(MEM_LOAD, "load", us=3, tensor_size=1024)
        for kind in range(9):
            root = {BROADCAST: "comm_src", SCATTER: "comm_src", REDUCE: "comm_dst"}
            root[GATHER] = "comm_dst"
            more = {root[kind]: 2} if kind in root else {}
            w.node(COLL, f"type {kind}", comm_type=kind, comm_size=65_536, **more)
        w.node(COLL, "barrier", comm_type=BARRIER, comm_size=0)
        w.node(MEM_STORE, "store", us=2, tensor_size=1024)
        files[f"collectives.{rank}.et"] = w.stream()
    return files


def every_file(pb):
    """Content by name."""
    return step(pb) | pipeline(pb) | collectives(pb)


def main(proto):
    """Write the files with the published schema."""
    protoc = importlib.import_module("grpc_tools.protoc")
    with TemporaryDirectory() as folder:
        path = Path(proto).resolve()
        made = protoc.main(["", f"-I{path.parent}", f"--python_out={folder}", str(path)])
        if made != 0:
            sys.exit(made)
        sys.path.insert(0, folder)
        published = importlib.import_module("et_def_pb2")
        FOLDER.mkdir(exist_ok=True)
        for name, content in every_file(published).items():
            (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
