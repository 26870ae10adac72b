"""Weights of a model by layer and by file: what a replica that starts cold needs first.

Bytes of tensors are known where the files of the index lie beside it, from their headers.
Without them a layer has the bytes of its shape, and the tensors of a layer count alike. What
stands outside layers comes first where its name says embedding, else last.
"""

import re
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.work.model import (
    Model,
    Part,
    attention_params,
    bytes_of,
    count_params,
    part_bytes,
    stored_bytes,
)
from fanfold.work.model_config import INDEX_NAME, load_places

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.([0-9]{1,5})\.", re.ASCII)
_FIRST = re.compile(r"embed|wte|wpe", re.ASCII)
_ROUTED: tuple[Part, ...] = ("experts", "shared_experts", "router")
FIRST, LAST = -1, -2
"""In place of a layer: embeddings, and what comes after all layers."""


class Shard(NamedTuple):
    """One file. layers: those that it has tensors of, rising."""

    name: str
    n_bytes: int
    tensors: int
    layers: tuple[int, ...]


class Weights(NamedTuple):
    """Bytes of embeddings, of each layer, of the rest.

    shards: none where there is no index. is_read: from headers, not from shapes.
    """

    first: int
    layers: tuple[int, ...]
    last: int
    shards: tuple[Shard, ...] = ()
    is_read: bool = False

    @property
    def n_bytes(self) -> int:
        """All of it."""
        return self.first + sum(self.layers) + self.last

    @property
    def first_layer_bytes(self) -> int:
        """What there must be before the first layer can run."""
        return self.first + self.layers[0]


def weights_of(model: Model) -> Weights:
    """By the shape of a model, in the type of its stored weights."""
    if model.told:
        n_bytes, n = stored_bytes(model), model.n_layers
        even = tuple(n_bytes * (i + 1) // n - n_bytes * i // n for i in range(n))
        return Weights(0, even, 0)
    parts, n_moe = count_params(model), len(model.moe_layers)
    last_norm = model.hidden * (1 + int(model.has_norm_bias))
    norms = model.n_norms * last_norm
    dense: dict[Part, int] = {"dense_mlp": parts["dense_mlp"] // max(model.n_layers - n_moe, 1)}
    routed = {part: parts[part] // max(n_moe, 1) for part in _ROUTED}
    routing = set(model.moe_layers)
    layers = []
    for i, (attention, small) in enumerate(attention_params(model)):
        mlp = routed if i in routing else dense
        found: dict[Part, int] = {"attention": attention, "norms": norms + small, **mlp}
        layers.append(_stored(model, found))
    first = part_bytes(model, "embeddings", parts["embeddings"])
    last = _stored(model, {"head": parts["head"], "norms": last_norm})
    return Weights(first, tuple(layers), last)


def _stored(model: Model, parts: dict[Part, int]) -> int:
    """Bytes of what is stored one after the other; of one type: rounded up once."""
    if model.packing is None:
        return bytes_of(sum(parts.values()), model.dtype)
    return sum(part_bytes(model, part, n) for part, n in parts.items())


def load_weights(folder: Path, model: Model) -> Weights | None:
    """Weights of a folder with an index; None where it has none.

    Raises:
        ConfigError: a wrong index, a file without a tensor that the index says it has, or a
            layer that the model has not.
    """
    if not (folder / INDEX_NAME).is_file():
        return None
    places = load_places(folder)
    layer_of = {tensor: _layer(tensor, model, folder) for tensor in places}
    found = sorted(set(places.values()))
    if all((folder / name).is_file() for name in found):
        sizes = {t: n for name in found for t, n in _header(folder, name, places).items()}
        return _summed(places, layer_of, sizes, model.n_layers, is_read=True)
    shape = weights_of(model)
    whole = {FIRST: shape.first, LAST: shape.last} | dict(enumerate(shape.layers))
    count: dict[int, int] = {}
    for layer in layer_of.values():
        count[layer] = count.get(layer, 0) + 1
    sizes, seen = {}, dict.fromkeys(whole, 0)
    for tensor in sorted(places):
        layer = layer_of[tensor]
        k, n = seen[layer], count[layer]
        sizes[tensor] = whole[layer] * (k + 1) // n - whole[layer] * k // n
        seen[layer] = k + 1
    return _summed(places, layer_of, sizes, model.n_layers, is_read=False)


def _layer(tensor: str, model: Model, folder: Path) -> int:
    if (found := _LAYER.search(tensor)) is None:
        return FIRST if _FIRST.search(tensor) else LAST
    layer = int(found[1])
    if layer >= model.n_layers + model.n_mtp:
        field = f"{folder / INDEX_NAME}: weight_map.{tensor}"
        raise ConfigError(field, f"layer {layer}", f"layers 0..{model.n_layers - 1}")
    return layer if layer < model.n_layers else LAST


def _summed(
    places: dict[str, str],
    layer_of: dict[str, int],
    sizes: dict[str, int],
    n_layers: int,
    *,
    is_read: bool,
) -> Weights:
    by_layer = dict.fromkeys([FIRST, LAST, *range(n_layers)], 0)
    of_file: dict[str, list[str]] = {}
    for tensor, name in places.items():
        by_layer[layer_of[tensor]] += sizes[tensor]
        of_file.setdefault(name, []).append(tensor)
    shards = tuple(
        Shard(
            name,
            sum(sizes[t] for t in tensors),
            len(tensors),
            tuple(sorted({layer_of[t] for t in tensors if layer_of[t] >= 0})),
        )
        for name, tensors in sorted(of_file.items())
    )
    layers = tuple(by_layer[i] for i in range(n_layers))
    return Weights(by_layer[FIRST], layers, by_layer[LAST], shards, is_read)


def _header(folder: Path, name: str, places: dict[str, str]) -> dict[str, int]:
    """Bytes of each tensor that the index places in a file."""
    field = str(folder / name)
    wanted = {tensor for tensor, at in places.items() if at == name}
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - slow to load

    try:
        with safe_open(field, "np") as file:
            lacking = wanted.difference(file.keys())
            if lacking:
                raise ConfigError(field, f"no {min(lacking)}", "what the index says it has")
            return {tensor: _bytes(file.get_slice(tensor), field, tensor) for tensor in wanted}
    except (SafetensorError, OSError) as err:
        raise ConfigError(field, str(err), "a safetensors file") from err


_BITS = (
    dict.fromkeys(("F4",), 4)
    | dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6)
    | dict.fromkeys(("BOOL", "I8", "U8", "F8_E8M0", "F8_E4M3", "F8_E5M2"), 8)
    | dict.fromkeys(("I16", "U16", "F16", "BF16"), 16)
    | dict.fromkeys(("I32", "U32", "F32"), 32)
    | dict.fromkeys(("I64", "U64", "F64", "C64"), 64)
)
"""Of the types that a safetensors header may name."""


def _bytes(tensor: object, field: str, name: str) -> int:
    shape: list[int] = tensor.get_shape()  # type: ignore[attr-defined]
    dtype: str = tensor.get_dtype()  # type: ignore[attr-defined]
    if dtype not in _BITS:
        raise ConfigError(f"{field}: {name}", dtype, ", ".join(_BITS))
    n = _BITS[dtype]
    for size in shape:
        n *= size
    return -(-n // 8)
