"""Reads Chakra execution traces: a file for each rank, ``prefix.0.et`` and so on.

A file is a stream of messages, each behind its length as a varint: one GlobalMetadata, then
nodes; it may be gzipped. Read are

    COMP_NODE                  duration_micros; where that is 0, num_ops at a rate that is given
    COMM_COLL_NODE             comm_type, comm_size, pg_name; comm_src or comm_dst as the root
    COMM_SEND_NODE, _RECV_     comm_dst, comm_src, comm_tag, comm_size or tensor_size
    MEM_LOAD_NODE, _STORE_     duration_micros
    METADATA_NODE              nothing but what waits for it, and groups of PyTorch

``comm_size`` is what one rank puts in, as the converters count it: for all_gather and gather a
shard. Groups by name stand in a JSON object beside the files, name to ranks, as ASTRA-sim takes
it; without a name all ranks take part. Times of communication in the trace are left aside.
Nodes of one stream compute one after the other; CPU operations are a lane of their own.
"""

import ast
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import DecodeError

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.units import PS_PER_SECOND, PS_PER_US
from fanfold.work.chakra_schema import (
    COLLECTIVE_TYPES,
    NODE_TYPES,
    GlobalMetadata,
    Node,
)
from fanfold.work.trace import GroupKind, Trace
from fanfold.work.trace_ops import NONE, Op, join_ops

MAX_FILE_BYTES = 2**31
MAX_NODE_BYTES = 2**26
MAX_BYTES = 2**50
MAX_RANKS = 2**20
MAX_US = 2**40
CPU_LANE = -1
MISSING = "dependency on a node that is not there"
GROUP_INIT = "process_group:init"
"""Name of the nodes in which PyTorch lists groups."""
_FILE = re.compile(r"(.+)\.([0-9]{1,7})\.et", re.ASCII)
_GZIP = b"\x1f\x8b"
_KINDS: dict[str, GroupKind] = {
    "ALL_REDUCE": "all_reduce",
    "REDUCE": "reduce",
    "ALL_GATHER": "all_gather",
    "GATHER": "gather",
    "SCATTER": "scatter",
    "BROADCAST": "broadcast",
    "ALL_TO_ALL": "all_to_all",
    "REDUCE_SCATTER": "reduce_scatter",
    "REDUCE_SCATTER_BLOCK": "reduce_scatter",
    "BARRIER": "barrier",
}
_BY_SHARD = ("all_gather", "gather")
_ROOT_AT = {
    "broadcast": "comm_src",
    "scatter": "comm_src",
    "reduce": "comm_dst",
    "gather": "comm_dst",
}


class Wish(NamedTuple):
    """How to read.

    skip_unknown: count what cannot be modelled, and go on. ops_per_s: of a GPU, for nodes that
    have num_ops and no duration; 0: refuse those.
    """

    skip_unknown: bool = False
    ops_per_s: int = 0


STRICT = Wish()


def load_chakra(path: Path, wish: Wish = STRICT) -> Trace:
    """Trace of a folder with files of one prefix, or of FOLDER/PREFIX.

    Raises:
        ConfigError: unreadable files, or the first operation that cannot be modelled, by rank
            and node.
    """
    files = trace_files(path)
    groups = load_groups(group_file(path), len(files))
    skipped: Counter[str] = Counter()
    ops = []
    for rank, file in enumerate(files):
        reader = _Reader(rank, len(files), wish, dict(groups), skipped)
        ops.append(reader.read(read_input(file), str(file)))
    return join_ops(ops, skipped)


def trace_files(path: Path) -> list[Path]:
    """Files of ranks 0, 1, ...

    Raises:
        ConfigError: none, those of several prefixes, or a rank that is missing.
    """
    folder, wanted = (path, "") if path.is_dir() else (path.parent, path.name)
    found: dict[str, dict[int, Path]] = {}
    for file in sorted(folder.glob("*.et")) if folder.is_dir() else []:
        if (name := _FILE.fullmatch(file.name)) and wanted in ("", name[1]):
            found.setdefault(name[1], {})[int(name[2])] = file
    if len(found) != 1:
        got = ", ".join(sorted(found)[:4]) or "no such file"
        raise ConfigError(str(path), got, "files PREFIX.0.et, PREFIX.1.et, ... of one prefix")
    prefix, of_rank = next(iter(found.items()))
    for rank in range(len(of_rank)):
        if rank not in of_rank:
            allowed = f"{prefix}.{rank}.et, as there is {prefix}.{max(of_rank)}.et"
            raise ConfigError(str(path), "a rank is missing", allowed)
    return [of_rank[rank] for rank in range(len(of_rank))]


def group_file(path: Path) -> Path | None:
    """The one JSON file beside the traces, or PREFIX.json; None without one."""
    if not path.is_dir():
        file = path.parent / f"{path.name}.json"
        return file if file.is_file() else None
    files = sorted(path.glob("*.json"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:4])
        raise ConfigError(str(path), names, "one JSON file of groups, or FOLDER/PREFIX")
    return files[0] if files else None


def load_groups(file: Path | None, n_ranks: int) -> dict[str, tuple[int, ...]]:
    """Groups of a JSON object, name to ranks.

    Raises:
        ConfigError: unreadable, or the first wrong group by its name.
    """
    if file is None:
        return {}
    try:
        table = msgspec.json.decode(read_input(file), type=dict[str, list[int]])
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise ConfigError(str(file), str(err), "an object of groups, name to ranks") from err
    for name, ranks in table.items():
        if not _is_group(ranks, n_ranks):
            allowed = f"ranks 0..{n_ranks - 1}, each once"
            raise ConfigError(f"{file}: {name}", str(ranks[:8]), allowed)
    return {name: tuple(ranks) for name, ranks in table.items()}


def messages_of(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Messages of a stream, each with the byte it begins at.

    Raises:
        ConfigError: a length that is none, or more than there is.
    """
    at = 0
    while at < len(data):
        begin, length, shift = at, 0, 0
        while True:
            if at == len(data) or shift > 28:
                raise ConfigError(name, f"byte {begin}", "a length as a varint of 32 bits")
            length |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        if length > min(len(data) - at, MAX_NODE_BYTES):
            got = f"length {length} at byte {begin}"
            raise ConfigError(name, got, f"the {len(data) - at} bytes that are left, or fewer")
        yield begin, data[at : at + length]
        at += length


class _Reader:
    """Nodes of one rank."""

    def __init__(
        self,
        rank: int,
        n_ranks: int,
        wish: Wish,
        groups: dict[str, tuple[int, ...]],
        skipped: Counter[str],
    ) -> None:
        self.rank, self.n_ranks, self.wish = rank, n_ranks, wish
        self.groups, self.skipped = groups, skipped

    def read(self, data: bytes, name: str) -> list[Op]:
        nodes = [(node, self._where(node)) for node in self._nodes(data, name)]
        at: dict[int, int] = {}
        for i, (node, where) in enumerate(nodes):
            if node.id in at:
                raise ConfigError(where, f"id {node.id} twice", "each id once a rank")
            at[node.id] = i
            self._learn_groups(node)
        return [self._op(node, where, at) for node, where in nodes]

    def _nodes(self, data: bytes, name: str) -> Iterator[Any]:
        if data.startswith(_GZIP):
            data = _unpacked(data, name)
        is_first = True
        for begin, message in messages_of(data, name):
            kind = GlobalMetadata if is_first else Node
            try:
                found = kind.FromString(message)
            except DecodeError as err:
                what = "GlobalMetadata" if is_first else "Node"
                raise ConfigError(name, f"no {what} at byte {begin}", "a Chakra trace") from err
            if not is_first:
                yield found
            is_first = False
        if is_first:
            raise ConfigError(name, "an empty file", "a Chakra trace: GlobalMetadata, nodes")

    def _where(self, node: Any) -> str:
        return f"rank {self.rank} node {node.id} {node.name[:40]}".rstrip()

    def _op(self, node: Any, where: str, at: Mapping[int, int]) -> Op:
        needs = set()
        for need in (*node.ctrl_deps, *node.data_deps):
            if need in at:
                needs.add(at[need])
            elif self.wish.skip_unknown:
                self.skipped[MISSING] += 1
            else:
                allowed = "nodes of this rank's file; --skip-unknown counts others"
                raise ConfigError(where, f"waits for node {need}", allowed)
        bare = Op("compute", where, tuple(sorted(needs)))
        try:
            return self._modelled(bare, node, _attrs(node, where))
        except _UnknownError as unknown:
            if not self.wish.skip_unknown:
                raise ConfigError(*unknown.told) from unknown
            self.skipped[unknown.name] += 1
            return bare

    def _modelled(self, bare: Op, node: Any, attrs: Mapping[str, Any]) -> Op:
        kind = NODE_TYPES[node.type] if 0 <= node.type < len(NODE_TYPES) else str(node.type)
        if kind == "METADATA_NODE":
            return bare
        if kind == "COMP_NODE":
            return self._computation(bare, node, attrs)
        if kind in ("MEM_LOAD_NODE", "MEM_STORE_NODE"):
            if not node.duration_micros:
                raise _UnknownError(kind, bare.where, f"{kind} without duration", "a duration")
            return self._timed(bare, node.duration_micros, attrs)
        if kind in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
            return self._message(bare, kind, attrs)
        if kind == "COMM_COLL_NODE":
            return self._collective(bare, attrs)
        got = f"type {kind}"
        raise _UnknownError(kind, bare.where, got, ", ".join(NODE_TYPES[1:]))

    def _computation(self, bare: Op, node: Any, attrs: Mapping[str, Any]) -> Op:
        n_ops = _whole(attrs, "num_ops", bare.where, 0, 2**62) if "num_ops" in attrs else 0
        if node.duration_micros or not n_ops:
            return self._timed(bare, node.duration_micros, attrs)
        if not self.wish.ops_per_s:
            allowed = "duration_micros, or --ops-rate for num_ops"
            raise _UnknownError("num_ops", bare.where, f"num_ops {n_ops} without time", allowed)
        duration = -(-n_ops * PS_PER_SECOND // self.wish.ops_per_s)
        return bare._replace(duration_ps=duration, lane=_lane(attrs))

    def _timed(self, bare: Op, micros: int, attrs: Mapping[str, Any]) -> Op:
        if micros > MAX_US:
            raise ConfigError(f"{bare.where}: duration_micros", micros, f"0..{MAX_US}")
        return bare._replace(duration_ps=micros * PS_PER_US, lane=_lane(attrs))

    def _message(self, bare: Op, kind: str, attrs: Mapping[str, Any]) -> Op:
        is_send = kind == "COMM_SEND_NODE"
        key = "comm_dst" if is_send else "comm_src"
        own = "comm_src" if is_send else "comm_dst"
        if own in attrs and _whole(attrs, own, bare.where, 0, MAX_RANKS) != self.rank:
            raise ConfigError(f"{bare.where}: {own}", attrs[own], f"{self.rank}, its rank")
        if key not in attrs:
            raise _UnknownError(kind, f"{bare.where}: {key}", "nothing", "the other rank")
        size = "comm_size" if "comm_size" in attrs else "tensor_size"
        tag = _whole(attrs, "comm_tag", bare.where, 0, 2**31) if "comm_tag" in attrs else 0
        return bare._replace(
            kind="send" if is_send else "recv",
            n_bytes=_whole(attrs, size, bare.where, 0, MAX_BYTES),
            peer=_whole(attrs, key, bare.where, 0, self.n_ranks - 1),
            tag=tag,
        )

    def _collective(self, bare: Op, attrs: Mapping[str, Any]) -> Op:
        field = f"{bare.where}: comm_type"
        if "comm_type" not in attrs:
            kind = "broadcast" if "broadcast" in bare.where.lower() else "COMM_COLL_NODE"
            raise _unknown_of(kind, field, "nothing", ", ".join(COLLECTIVE_TYPES))
        number = _whole(attrs, "comm_type", bare.where, 0, 2**31)
        name = COLLECTIVE_TYPES[number] if number < len(COLLECTIVE_TYPES) else str(number)
        if name not in _KINDS:
            raise _UnknownError(f"comm_type {name}", field, number, ", ".join(COLLECTIVE_TYPES))
        return self._known(bare, _KINDS[name], attrs)

    def _known(self, bare: Op, kind: GroupKind, attrs: Mapping[str, Any]) -> Op:
        dims = attrs.get("involved_dim", ())
        if isinstance(dims, tuple) and not all(dims) and "pg_name" not in attrs:
            raise _unknown_of(kind, f"{bare.where}: involved_dim", list(dims), "pg_name")
        members = self._members(bare, kind, attrs)
        n_bytes = 0
        if kind != "barrier":
            n_bytes = _whole(attrs, "comm_size", bare.where, 0, MAX_BYTES)
            if n_bytes == 0:
                raise _unknown_of(kind, f"{bare.where}: comm_size", 0, "1 byte or more")
        if kind in _BY_SHARD:
            n_bytes *= len(members)
        root = NONE
        if (key := _ROOT_AT.get(kind, "")) in attrs:
            root = _whole(attrs, key, bare.where, 0, self.n_ranks - 1)
        group = str(attrs.get("pg_name", ""))
        return bare._replace(
            kind=kind, n_bytes=n_bytes, group=group, members=members, root=root
        )

    def _members(self, bare: Op, kind: str, attrs: Mapping[str, Any]) -> tuple[int, ...]:
        name = attrs.get("pg_name", "")
        if name == "":
            return tuple(range(self.n_ranks))
        if name not in self.groups:
            known = (
                ", ".join(sorted(self.groups)[:8]) or "none: a JSON file of groups is needed"
            )
            raise _unknown_of(kind, f"{bare.where}: pg_name", name, known)
        return self.groups[name]

    def _learn_groups(self, node: Any) -> None:
        """Groups that PyTorch lists in a metadata node, where no file names them."""
        if GROUP_INIT not in node.name:
            return
        try:
            held = ast.literal_eval(node.inputs.values)
            rows = msgspec.json.decode(str(held[0]), type=list[dict[str, Any]])
        except (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError):
            return  # a group that stays unknown is told where it is used
        for row in rows:
            ranks = row.get("ranks") or list(range(self.n_ranks))
            is_all = bool(row.get("ranks")) or row.get("group_size") == self.n_ranks
            if is_all and isinstance(ranks, list) and _is_group(ranks, self.n_ranks):
                self.groups.setdefault(str(row.get("pg_name")), tuple(ranks))


class _UnknownError(Exception):
    """What cannot be modelled: its name for counting, and the error line."""

    def __init__(self, name: str, field: str, got: object, allowed: str) -> None:
        super().__init__(name)
        self.name = name
        self.told = (field, got, allowed)


def _unknown_of(kind: str, field: str, got: object, allowed: str) -> Exception:
    """As _UnknownError; but a broadcast is never left out."""
    if kind == "broadcast":
        return ConfigError(field, got, f"{allowed}; a broadcast is never left out")
    return _UnknownError(kind, field, got, allowed)


def _attrs(node: Any, where: str) -> dict[str, Any]:
    """Values by name; those of kinds that are not read are left out."""
    found: dict[str, Any] = {}
    for attr in node.attr:
        kind = attr.WhichOneof("value")
        if kind is None:
            continue
        if attr.name in found:
            raise ConfigError(f"{where}: {attr.name}", "twice", "each attribute once")
        value = getattr(attr, kind)
        found[attr.name] = tuple(value.values) if kind == "bool_list" else value
    return found


def _whole(attrs: Mapping[str, Any], key: str, where: str, least: int, most: int) -> int:
    """A whole number that is there."""
    value = attrs.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        got = "nothing" if value is None else value
        raise ConfigError(f"{where}: {key}", got, f"a whole number in {least}..{most}")
    return value


def _lane(attrs: Mapping[str, Any]) -> int:
    if attrs.get("is_cpu_op") is True:
        return CPU_LANE
    stream = attrs.get("stream", 0)
    return stream if isinstance(stream, int) and stream >= 0 else 0


def _is_group(ranks: list[Any], n_ranks: int) -> bool:
    is_whole = all(isinstance(r, int) and not isinstance(r, bool) for r in ranks)
    return (
        bool(ranks)
        and is_whole
        and len(set(ranks)) == len(ranks)
        and min(ranks) >= 0
        and max(ranks) < n_ranks
    )


def _unpacked(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            found = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, ValueError, zlib.error) as err:
        raise ConfigError(name, str(err), "a gzip file that is whole") from err
    if len(found) > MAX_FILE_BYTES:
        raise ConfigError(name, "more than 2 GiB inside", "a smaller trace")
    return found
