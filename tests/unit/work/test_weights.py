import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from fanfold.errors import ConfigError
from fanfold.work.catalog import workload_of
from fanfold.work.model import Gqa, Model, bytes_of, total_params
from fanfold.work.model_config import INDEX_NAME
from fanfold.work.parallel import Degrees
from fanfold.work.presets import PRESETS
from fanfold.work.volumes import WorkloadRequest
from fanfold.work.weights import load_weights, weights_of

TINY = Model("tiny", 4, 2, 10, Gqa(1, 1, 4), 8, dtype="fp32")
TENSORS = {
    "model.embed_tokens.weight": ("a.safetensors", (10, 4)),
    "model.layers.0.mlp.weight": ("a.safetensors", (4, 8)),
    "model.layers.0.norm.weight": ("a.safetensors", (4,)),
    "model.layers.1.mlp.weight": ("b.safetensors", (4, 8)),
    "model.norm.weight": ("b.safetensors", (4,)),
    "lm_head.weight": ("b.safetensors", (10, 4)),
}


@pytest.fixture
def write(tmp_path):
    """A folder with an index, and its files where asked for."""

    def made(files=(), **places):
        table = {name: at for name, (at, _) in TENSORS.items()} | places
        index = {"metadata": {"total_size": 1}, "weight_map": table}
        (tmp_path / INDEX_NAME).write_text(json.dumps(index))
        for file in files:
            held = {n: np.zeros(s, np.float16) for n, (at, s) in TENSORS.items() if at == file}
            save_file(held, tmp_path / file)
        return tmp_path

    return made


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_layers_of_a_shape_are_the_whole_model(preset):
    held = weights_of(preset.model)
    whole = bytes_of(total_params(preset.model), preset.model.dtype)
    assert held.n_bytes == whole
    assert len(held.layers) == preset.model.n_layers
    dense = {n for i, n in enumerate(held.layers) if i not in preset.model.moe_layers}
    assert len(dense) <= 1
    assert held.first_layer_bytes == held.first + held.layers[0]


def test_bytes_are_read_from_files_that_lie_there(write):
    held = load_weights(write(("a.safetensors", "b.safetensors")), TINY)
    assert held.is_read
    assert (held.first, held.layers, held.last) == (80, (72, 64), 88)
    assert [(s.name, s.n_bytes, s.tensors, s.layers) for s in held.shards] == [
        ("a.safetensors", 152, 3, (0,)),
        ("b.safetensors", 152, 3, (1,)),
    ]


def test_without_files_layers_have_the_bytes_of_their_shape(write):
    held = load_weights(write(("a.safetensors",)), TINY)
    shape = weights_of(TINY)
    assert not held.is_read
    assert (held.first, held.layers, held.last) == (shape.first, shape.layers, shape.last)
    assert sum(s.n_bytes for s in held.shards) == bytes_of(total_params(TINY), "fp32")
    assert held.shards[0].n_bytes == shape.first + shape.layers[0]


def test_a_folder_without_an_index_has_none(tmp_path):
    assert load_weights(tmp_path, TINY) is None


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"model.layers.2.x": "a.safetensors"}, "weight_map.model.layers.2.x: got 'layer 2'"),
        ({"x": "../a.safetensors"}, "weight_map.x: got '../a.safetensors'"),
        ({"x": 5}, "weight_map.x: got 5"),
        ({"model.extra": "a.safetensors"}, "a.safetensors: got 'no model.extra'"),
    ],
)
def test_a_wrong_index_is_named(places, words, write):
    folder = write(("a.safetensors", "b.safetensors"), **places)
    with pytest.raises(ConfigError) as error:
        load_weights(folder, TINY)
    assert words in str(error.value)


def test_a_file_that_is_none_is_named(write):
    folder = write(("a.safetensors", "b.safetensors"))
    (folder / "b.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(ConfigError, match=r"b\.safetensors.*a safetensors file"):
        load_weights(folder, TINY)


def test_a_cold_start_waits_for_embeddings_and_the_first_layer(write):
    held = load_weights(write(("a.safetensors", "b.safetensors")), TINY)
    ask = WorkloadRequest(TINY, Degrees(gpus=8), weights=held, replicas=1, rate_bps=8 * 10**12)
    (one, _) = workload_of("cold-start").rows(ask)
    assert (one["first_layer_last_ps"], one["all_last_ps"]) == (152, 304)
    assert one["source_bytes"] == 304
