"""How a ``config.json`` says that weights are stored: their type, and which of them have it.

``quantization_config`` names what is left as it was trained, by patterns over names of modules.
A part is left so if a module that stands for it is: names of modules differ by family, so each
part has those that families of today use.
"""

import fnmatch
import re

from fanfold.errors import ConfigError
from fanfold.work.config_fields import Fields
from fanfold.work.model import Dtype, Packing, Part

_DTYPES: dict[str, Dtype] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_BITS: dict[int, Dtype] = {4: "int4", 8: "int8"}
_FLOATS: dict[int, Dtype] = {4: "fp4", 8: "fp8"}
_MODULES: dict[Part, tuple[str, ...]] = {
    "attention": ("model.layers.9.self_attn.o_proj", "model.layers.9.self_attn"),
    "dense_mlp": ("model.layers.0.mlp.gate_proj", "model.layers.0.mlp"),
    "experts": ("model.layers.9.mlp.experts.0.gate_proj", "model.layers.9.mlp.experts"),
    "shared_experts": ("model.layers.9.mlp.shared_experts.gate_proj",),
    "head": ("lm_head",),
}
_PREFIX = "language_model."
"""Before the names of a model that has other encoders beside."""
_MOST_PATTERN = 256
MX_GROUP, MX_SCALE_BITS = 32, 8
"""Microscaling Formats 1.0, section 5.1: a scale of 8 bits for each 32 values."""
SCALE_BITS = 16


def read_stored(fields: Fields, text: Fields) -> tuple[Dtype, Packing | None]:
    """Type of the stored weights: quantization first, then torch_dtype, else float32."""
    plain = _plain(fields, text)
    for at in (fields, text):
        if at.table.get("quantization_config") is not None:
            return _quantized(at.below("quantization_config"), plain or "bf16")
    return plain or "fp32", None


def _plain(fields: Fields, text: Fields) -> Dtype | None:
    for at in (fields, text):
        for key in ("torch_dtype", "dtype"):
            if at.table.get(key) is not None:
                said = at.text(key)
                if said not in _DTYPES:
                    raise ConfigError(f"{at.prefix}{key}", said, ", ".join(_DTYPES))
                return _DTYPES[said]
    return None


def _quantized(fields: Fields, plain: Dtype) -> tuple[Dtype, Packing | None]:
    method = fields.text("quant_method")
    if method in ("awq", "gptq"):
        return _by_bits(fields, "bits", _BITS), None
    if method == "fp8":
        return "fp8", None
    if method == "mxfp4":
        left = _left_plain(fields, fields.texts("modules_to_not_convert"))
        return "fp4", Packing(MX_GROUP, MX_SCALE_BITS, left, plain)
    if method == "compressed-tensors":
        return _compressed(fields, plain)
    allowed = "fp8, mxfp4, awq, gptq, compressed-tensors"
    raise ConfigError(f"{fields.prefix}quant_method", method, allowed)


def _compressed(fields: Fields, plain: Dtype) -> tuple[Dtype, Packing | None]:
    """One group of modules whose weights are alike; several groups are refused."""
    groups = fields.below("config_groups")
    if len(groups.table) != 1:
        field = f"{fields.prefix}config_groups"
        raise ConfigError(field, len(groups.table), "one group of weights")
    weights = groups.below(next(iter(groups.table))).below("weights")
    is_float = weights.text("type") == "float"
    dtype = _by_bits(weights, "num_bits", _FLOATS if is_float else _BITS)
    group = weights.size("group_size", default=0, least=0)
    scale_bits = MX_SCALE_BITS if is_float and dtype == "fp4" else SCALE_BITS
    return dtype, Packing(group, scale_bits, _left_plain(fields, fields.texts("ignore")), plain)


def _by_bits(fields: Fields, key: str, known: dict[int, Dtype]) -> Dtype:
    bits = fields.size(key)
    if bits not in known:
        raise ConfigError(f"{fields.prefix}{key}", bits, ", ".join(map(str, known)))
    return known[bits]


def _left_plain(fields: Fields, patterns: tuple[str, ...]) -> tuple[Part, ...]:
    found = [
        part
        for part, names in _MODULES.items()
        if any(_meets(fields, text, name) for text in patterns for name in names)
    ]
    return tuple(found)


def _meets(fields: Fields, pattern: str, name: str) -> bool:
    """As compressed-tensors do it: ``re:`` is a pattern from the start, else the whole name."""
    names = (name, _PREFIX + name)
    if not pattern.startswith("re:"):
        return any(fnmatch.fnmatchcase(each, pattern) for each in names)
    allowed = f"a pattern that can be read, of at most {_MOST_PATTERN} letters"
    if len(pattern) > _MOST_PATTERN:
        raise ConfigError(f"{fields.prefix}ignore", pattern[:40], allowed)
    try:
        meets = re.compile(pattern[3:]).match
    except re.error as err:
        raise ConfigError(f"{fields.prefix}ignore", pattern, allowed) from err
    return any(meets(each) is not None for each in names)
