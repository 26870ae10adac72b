"""Reads the shape of a model from a Hugging Face ``config.json`` and ``*.index.json``.

Fields that say nothing of the shape are ignored; of those that do, each must be there and be
of its kind. work/model_families.py has the key names, by ``model_type``.
"""

from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.work.config_fields import Fields
from fanfold.work.model import Dtype, Model
from fanfold.work.model_families import FAMILIES

_DTYPES: dict[str, Dtype] = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_BITS: dict[int, Dtype] = {4: "int4", 8: "int8"}
_METHODS: dict[str, Dtype] = {"fp8": "fp8", "mxfp4": "fp4"}
CONFIG_NAME = "config.json"
INDEX_NAME = "model.safetensors.index.json"


def load_model(path: Path) -> Model:
    """Model of a ``config.json``, or of a folder that holds one.

    Raises:
        ConfigError: unreadable, an unknown architecture, or the first wrong field by its name.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    name = file.resolve().parent.name if file.name == CONFIG_NAME else file.stem
    return read_model(_table(file), name, f"{file}: ")


def read_model(table: dict[str, Any], name: str, prefix: str = "") -> Model:
    """Model of a parsed table."""
    fields = Fields(table, prefix)
    kind = fields.text("model_type")
    if kind not in FAMILIES:
        raise ConfigError(f"{prefix}model_type", kind, ", ".join(sorted(FAMILIES)))
    text = fields.below("text_config") if "text_config" in table else fields
    model = FAMILIES[kind](text)
    return msgspec.structs.replace(model, name=name, dtype=_dtype(fields, text))


def load_places(path: Path) -> dict[str, str]:
    """File of each tensor, by the index of a folder, or by the index itself.

    Raises:
        ConfigError: unreadable, or the first wrong field by its name.
    """
    file = path / INDEX_NAME if path.is_dir() else path
    names = Fields(_table(file), f"{file}: ").below("weight_map")
    if not names.table:
        raise ConfigError(f"{file}: weight_map", {}, "the file of each tensor")
    places = {tensor: names.text(tensor) for tensor in names.table}
    for tensor, name in places.items():
        if Path(name).name != name or name in ("", ".", ".."):
            raise ConfigError(f"{file}: weight_map.{tensor}", name, "a file beside the index")
    return places


def _table(file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(read_input(file), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise ConfigError(str(file), str(err), "a JSON object") from err


def _dtype(fields: Fields, text: Fields) -> Dtype:
    """Of the stored weights: quantization first, then torch_dtype, else float32."""
    if fields.table.get("quantization_config") is not None:
        return _quantized(fields.below("quantization_config"))
    for at in (fields, text):
        for key in ("torch_dtype", "dtype"):
            if at.table.get(key) is not None:
                said = at.text(key)
                if said not in _DTYPES:
                    raise ConfigError(f"{at.prefix}{key}", said, ", ".join(_DTYPES))
                return _DTYPES[said]
    return "fp32"


def _quantized(fields: Fields) -> Dtype:
    method = fields.text("quant_method")
    if method in ("awq", "gptq"):
        bits = fields.size("bits")
        if bits not in _BITS:
            raise ConfigError(f"{fields.prefix}bits", bits, "4, 8")
        return _BITS[bits]
    if method in _METHODS:
        return _METHODS[method]
    raise ConfigError(f"{fields.prefix}quant_method", method, "fp8, mxfp4, awq, gptq")
