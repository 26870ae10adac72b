"""The part of the Chakra schema that is read: messages of an execution trace as protobuf.

Field numbers of et_def.proto (mlcommons/chakra, schema 1.0). Descriptors are built from the
tables below, in a pool of their own; fields that are not listed are skipped by the parser.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

NODE_TYPES = (
    "INVALID_NODE",
    "METADATA_NODE",
    "MEM_LOAD_NODE",
    "MEM_STORE_NODE",
    "COMP_NODE",
    "COMM_SEND_NODE",
    "COMM_RECV_NODE",
    "COMM_COLL_NODE",
)
"""By number of NodeType."""
COLLECTIVE_TYPES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
"""By number of CollectiveCommType."""
_F = descriptor_pb2.FieldDescriptorProto
_VALUES: dict[str, tuple[int, Any]] = {
    "double_val": (3, _F.TYPE_DOUBLE),
    "float_val": (5, _F.TYPE_FLOAT),
    "int32_val": (7, _F.TYPE_INT32),
    "int64_val": (9, _F.TYPE_INT64),
    "uint32_val": (11, _F.TYPE_UINT32),
    "uint64_val": (13, _F.TYPE_UINT64),
    "sint32_val": (15, _F.TYPE_SINT32),
    "sint64_val": (17, _F.TYPE_SINT64),
    "fixed32_val": (19, _F.TYPE_FIXED32),
    "fixed64_val": (21, _F.TYPE_FIXED64),
    "sfixed32_val": (23, _F.TYPE_SFIXED32),
    "sfixed64_val": (25, _F.TYPE_SFIXED64),
    "bool_val": (27, _F.TYPE_BOOL),
    "string_val": (29, _F.TYPE_STRING),
}
"""Members of ``value`` of an AttributeProto; of its lists only that of bool."""


def _add(message: Any, name: str, number: int, kind: Any, *, many: bool = False) -> Any:
    field = message.field.add()
    field.name, field.number, field.type = name, number, kind
    field.label = _F.LABEL_REPEATED if many else _F.LABEL_OPTIONAL
    return field


def _build() -> tuple[Any, Any, Any, Any]:
    file = descriptor_pb2.FileDescriptorProto()
    file.name, file.package, file.syntax = "chakra_trace.proto", "ChakraProtoMsg", "proto3"
    attr = file.message_type.add()
    attr.name = "AttributeProto"
    _add(attr, "name", 1, _F.TYPE_STRING)
    attr.oneof_decl.add().name = "value"
    for name, (number, kind) in _VALUES.items():
        _add(attr, name, number, kind).oneof_index = 0
    flags = _add(attr, "bool_list", 28, _F.TYPE_MESSAGE)
    flags.oneof_index, flags.type_name = 0, ".ChakraProtoMsg.BoolList"
    bools = file.message_type.add()
    bools.name = "BoolList"
    _add(bools, "values", 1, _F.TYPE_BOOL, many=True)
    info = file.message_type.add()
    info.name = "IOInfo"
    _add(info, "values", 1, _F.TYPE_STRING)
    head = file.message_type.add()
    head.name = "GlobalMetadata"
    _add(head, "version", 1, _F.TYPE_STRING)
    node = file.message_type.add()
    node.name = "Node"
    _add(node, "id", 1, _F.TYPE_UINT64)
    _add(node, "name", 2, _F.TYPE_STRING)
    _add(node, "type", 3, _F.TYPE_INT32)
    for name, number in (("ctrl_deps", 4), ("data_deps", 5)):
        _add(node, name, number, _F.TYPE_UINT64, many=True)
    for name, number in (("start_time_micros", 6), ("duration_micros", 7)):
        _add(node, name, number, _F.TYPE_UINT64)
    _add(node, "inputs", 8, _F.TYPE_MESSAGE).type_name = ".ChakraProtoMsg.IOInfo"
    attrs = _add(node, "attr", 10, _F.TYPE_MESSAGE, many=True)
    attrs.type_name = ".ChakraProtoMsg.AttributeProto"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("GlobalMetadata", "Node", "AttributeProto", "BoolList")
    ]
    return found[0], found[1], found[2], found[3]


GlobalMetadata, Node, AttributeProto, BoolList = _build()
