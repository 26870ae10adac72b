"""Reads the shape of a model from a Hugging Face ``config.json`` and ``*.index.json``.

Fields that say nothing of the shape are ignored; of those that do, each must be there and be
of its kind. work/model_families.py has the key names, by ``model_type``. Of a model that wraps
one of text beside encoders of other things, the text model is read, and that is said. Of a
family that is not known the count is told: by its safetensors files or index, or by who asks.
"""

from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.work.config_fields import Fields
from fanfold.work.model import MAX_LAYERS, Gqa, Model
from fanfold.work.model_families import FAMILIES
from fanfold.work.packed import read_stored
from fanfold.work.stored_params import count_stored

CONFIG_NAME = "config.json"
INDEX_NAME = "model.safetensors.index.json"
_ENCODERS = ("vision_config", "audio_config", "vision_encoder_config")


def load_model(path: Path, parameters: int = 0) -> Model:
    """Model of a ``config.json``, or of a folder that holds one.

    Args:
        parameters: of a model whose family is not known; 0: as its files tell.

    Raises:
        ConfigError: unreadable, a family that is not known and no count of it, parameters of a
            family that is known, or the first wrong field by its name.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    name = file.resolve().parent.name if file.name == CONFIG_NAME else file.stem
    table, prefix = _table(file), f"{file}: "
    fields, text = _texts(table, prefix)
    kind = _family(fields, text)
    if kind in FAMILIES:
        check_no_count(parameters)
        return read_model(table, name, prefix)
    dtype, packing = read_stored(fields, text)
    by = "--parameters"
    if not parameters:
        by = "its safetensors files"
        parameters = count_stored(file.parent, dtype if packing is None else None)
    if not parameters:
        allowed = f"{', '.join(sorted(FAMILIES))}; any other with {INDEX_NAME} beside it"
        raise ConfigError(f"{prefix}model_type", kind, f"{allowed}, or with --parameters")
    counted = f"counted by {by}: model_type {kind} is not known"
    made = _bare(text, name)
    return msgspec.structs.replace(
        made, dtype=dtype, packing=packing, told=parameters, counted=counted
    )


def check_no_count(parameters: int) -> None:
    """A model whose shape is known is counted.

    Raises:
        ConfigError: parameters beside it.
    """
    if parameters:
        allowed = "none for a model of a known family, which is counted"
        raise ConfigError("parameters", parameters, allowed)


def read_model(table: dict[str, Any], name: str, prefix: str = "") -> Model:
    """Model of a parsed table, of a family that is known."""
    fields, text = _texts(table, prefix)
    kind = _family(fields, text)
    if kind not in FAMILIES:
        raise ConfigError(f"{prefix}model_type", kind, ", ".join(sorted(FAMILIES)))
    dtype, packing = read_stored(fields, text)
    left_out = [key.partition("_")[0] for key in _ENCODERS if isinstance(table.get(key), dict)]
    counted = f"the text model, without its {' and '.join(left_out)} encoder"
    return msgspec.structs.replace(
        FAMILIES[kind](text),
        name=name,
        dtype=dtype,
        packing=packing,
        counted=counted if left_out else "",
    )


def _texts(table: dict[str, Any], prefix: str) -> tuple[Fields, Fields]:
    """The whole, and the text model's fields; what only the whole says holds for both."""
    fields = Fields(table, prefix)
    if "text_config" not in table:
        return fields, fields
    text = fields.below("text_config")
    key = "tie_word_embeddings"
    if key in table and key not in text.table:
        text = Fields(text.table | {key: table[key]}, text.prefix)
    return fields, text


def _family(fields: Fields, text: Fields) -> str:
    """The wrapper's where it is known, else that of what it wraps."""
    kind = fields.text("model_type")
    if kind in FAMILIES or not isinstance(text.table.get("model_type"), str):
        return kind
    return text.text("model_type")


def _bare(text: Fields, name: str) -> Model:
    """What nearly all families call alike, for how layers and heads are shared out."""
    hidden = text.size("n_embd" if "n_embd" in text.table else "hidden_size")
    n_layers = "n_layer" if "n_layer" in text.table else "num_hidden_layers"
    heads = text.size("num_attention_heads", default=text.size("n_head", default=1))
    return Model(
        name=name,
        hidden=hidden,
        n_layers=text.size(n_layers, most=MAX_LAYERS),
        vocab=text.size("vocab_size", default=1),
        attention=Gqa(heads, heads, max(hidden // heads, 1)),
        inner=text.size("intermediate_size", default=4 * hidden),
    )


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
