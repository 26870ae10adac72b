"""Configs of models of 2025: counted against a list of their tensors, and published totals.

The lists of tensors are by hand, from the published model code of each family.
"""

import json
import struct
from math import prod
from pathlib import Path

import pytest

from fanfold.errors import ConfigError
from fanfold.work.count_text import parse_count
from fanfold.work.model import active_params, stored_bytes, total_params
from fanfold.work.model_config import INDEX_NAME, load_model
from fanfold.work.weights import weights_of

RECENT = Path(__file__).parent / "configs" / "recent"
B = 10**9
# Model card: parameters in all, and of a token; rounded there as here.
PUBLISHED = {
    "deepseek-v3.2": (671 * B, 37 * B),
    "kimi-k2-thinking": (1_000 * B, 32 * B),
    "kimi-k2.5": (1_000 * B, 32 * B),
    "glm-4.5-air": (106 * B, 12 * B),
    "glm-4.7": (355 * B, 32 * B),
    "gpt-oss-120b": (116_830_000_000, 5_130_000_000),
    "qwen3-next-80b-a3b": (80 * B, 3 * B),
    "qwen3-vl-235b-a22b": (235 * B, 22 * B),
    "minimax-m2": (230 * B, 10 * B),
}
# Bytes of the published files, GB.
FILES_GB = {"kimi-k2-thinking": 594, "gpt-oss-120b": 65.3}


def config_of(name):
    table = json.loads((RECENT / f"{name}.json").read_text())
    return table.get("text_config", table)


def swiglu(hidden, inner):
    return [(inner, hidden), (inner, hidden), (hidden, inner)]


def latent_attention(c):
    h, n = c["hidden_size"], c["num_attention_heads"]
    nope, rope, v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    rq, rkv = c["q_lora_rank"], c["kv_lora_rank"]
    shapes = [(rq, h), (rq,), (n * (nope + rope), rq)]
    shapes += [(rkv + rope, h), (rkv,), (n * (nope + v), rkv), (h, n * v)]
    if "index_n_heads" in c:
        heads, dim = c["index_n_heads"], c["index_head_dim"]
        shapes += [(heads * dim, rq), (dim, h), (dim,), (dim,), (heads, h)]
    return shapes


def grouped_attention(c, gate=1):
    h, d = c["hidden_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    return [(q * gate, h), (kv, h), (kv, h), (h, q)], q, kv


def deepseek(c, layer):
    h, n = c["hidden_size"], c["n_routed_experts"]
    shapes = [*latent_attention(c), (h,), (h,)]
    if layer < c["first_k_dense_replace"]:
        return shapes + swiglu(h, c["intermediate_size"])
    return [*shapes, (n, h), (n,), *swiglu(h, c["moe_intermediate_size"]) * (n + 1)]


def glm(c, layer):
    h, n = c["hidden_size"], c["n_routed_experts"]
    shapes, q, kv = grouped_attention(c)
    shapes += [(q,), (kv,), (kv,), (h,), (h,)]
    shapes += [(c["head_dim"],)] * 2 * c["use_qk_norm"]
    if layer < c["first_k_dense_replace"]:
        return shapes + swiglu(h, c["intermediate_size"])
    return [*shapes, (n, h), (n,), *swiglu(h, c["moe_intermediate_size"]) * (n + 1)]


def gpt_oss(c, layer):
    h, n, i = c["hidden_size"], c["num_local_experts"], c["intermediate_size"]
    shapes, q, kv = grouped_attention(c)
    shapes += [(q,), (kv,), (kv,), (h,), (c["num_attention_heads"],), (h,), (h,), (n, h), (n,)]
    return [*shapes, (n, h, 2 * i), (n, 2 * i), (n, i, h), (n, h)]


def qwen3_moe(c, layer):
    h, n, d = c["hidden_size"], c["num_experts"], c["head_dim"]
    shapes, _, _ = grouped_attention(c)
    return [*shapes, (d,), (d,), (h,), (h,), (n, h), *swiglu(h, c["moe_intermediate_size"]) * n]


def qwen3_next(c, layer):
    h, n, d = c["hidden_size"], c["num_experts"], c["head_dim"]
    if (layer + 1) % c["full_attention_interval"] == 0:
        shapes, _, _ = grouped_attention(c, gate=2)
        shapes += [(d,), (d,)]
    else:
        heads = c["linear_num_value_heads"]
        k = c["linear_num_key_heads"] * c["linear_key_head_dim"]
        v = heads * c["linear_value_head_dim"]
        shapes = [(2 * k + 2 * v, h), (2 * heads, h)]
        shapes += [(2 * k + v, 1, c["linear_conv_kernel_dim"]), (heads,), (heads,)]
        shapes += [(c["linear_value_head_dim"],), (h, v)]
    shapes += [(h,), (h,), (n, h), (1, h)]
    shapes += swiglu(h, c["shared_expert_intermediate_size"])
    return shapes + swiglu(h, c["moe_intermediate_size"]) * n


def minimax(c, layer):
    h, n = c["hidden_size"], c["num_local_experts"]
    shapes, q, kv = grouped_attention(c)
    return [
        *shapes,
        (q,),
        (kv,),
        (h,),
        (h,),
        (n, h),
        (n,),
        *swiglu(h, c["intermediate_size"]) * n,
    ]


LAYERS = {
    "deepseek-v3.2": deepseek,
    "kimi-k2-thinking": deepseek,
    "kimi-k2.5": deepseek,
    "glm-4.5-air": glm,
    "glm-4.7": glm,
    "gpt-oss-120b": gpt_oss,
    "qwen3-next-80b-a3b": qwen3_next,
    "qwen3-vl-235b-a22b": qwen3_moe,
    "minimax-m2": minimax,
}


def tensors_of(name):
    c = config_of(name)
    shapes = [(c["vocab_size"], c["hidden_size"])] * 2 + [(c["hidden_size"],)]
    for layer in range(c["num_hidden_layers"]):
        shapes += LAYERS[name](c, layer)
    return sum(map(prod, shapes))


def test_every_recent_config_is_counted():
    assert {p.stem for p in RECENT.glob("*.json")} == PUBLISHED.keys() == LAYERS.keys()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_recent_config_counts_to_its_tensors_and_its_published_total(name):
    model = load_model(RECENT / f"{name}.json")
    published, active = PUBLISHED[name]
    assert total_params(model) == tensors_of(name)
    # Cards round: 1T for 1,026 billion, 3B for 3.9 billion with embeddings.
    assert abs(total_params(model) - published) * 1000 <= 30 * published
    near = {"qwen3-next-80b-a3b": 40, "gpt-oss-120b": 15, "glm-4.5-air": 15}.get(name, 11)
    assert abs(active_params(model) - active) * 100 <= near * active


@pytest.mark.parametrize("name", FILES_GB)
def test_weights_that_are_packed_in_part_have_the_bytes_of_their_files(name):
    model = load_model(RECENT / f"{name}.json")
    assert abs(stored_bytes(model) / B - FILES_GB[name]) < 0.005 * FILES_GB[name]
    assert abs(weights_of(model).n_bytes - stored_bytes(model)) < 10**6


def test_the_packing_of_kimi_by_hand():
    """Experts: 4 bits and a scale of 16 for 32; all else in 16."""
    model = load_model(RECENT / "kimi-k2.5.json")
    experts = 60 * 384 * 3 * 7168 * 2048
    rest = total_params(model) - experts
    assert stored_bytes(model) == experts // 2 + experts // 32 * 2 + 2 * rest
    assert model.counted == "the text model, without its vision encoder"


def test_layers_of_a_hybrid_differ_by_their_attention():
    model = load_model(RECENT / "qwen3-next-80b-a3b.json")
    weights = weights_of(model)
    assert len(set(weights.layers)) == 2
    assert weights.layers[3] == weights.layers[47] != weights.layers[2]
    assert weights.n_bytes == stored_bytes(model)


def unknown(folder, **more):
    table = {"model_type": "rwkv9", "hidden_size": 64, "num_hidden_layers": 4} | more
    (folder / "config.json").write_text(json.dumps(table))
    return folder


def put_safetensors(file, shapes, dtype="BF16"):
    header, at = {}, 0
    for name, shape in shapes.items():
        n = 2 * prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def test_an_unknown_family_is_counted_by_its_safetensors_files(tmp_path):
    folder = unknown(tmp_path, torch_dtype="bfloat16")
    put_safetensors(folder / "a.safetensors", {"x": (3, 5), "y": (7,)})
    put_safetensors(folder / "b.safetensors", {"z": (11, 2)})
    index = {"weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}}
    (folder / INDEX_NAME).write_text(json.dumps(index))
    model = load_model(folder)
    assert total_params(model) == 15 + 7 + 22
    assert "safetensors" in model.counted
    assert "rwkv9" in model.counted
    assert sum(weights_of(model).layers) == 2 * 44


@pytest.mark.parametrize(
    ("metadata", "count"),
    [
        ({"total_size": 10**9}, 5 * 10**8),
        ({"total_size": 10**9, "total_parameters": 4 * 10**8}, 4 * 10**8),
    ],
)
def test_an_unknown_family_is_counted_by_its_index_alone(metadata, count, tmp_path):
    folder = unknown(tmp_path, dtype="bfloat16")
    index = {"metadata": metadata, "weight_map": {"x": "a.safetensors"}}
    (folder / INDEX_NAME).write_text(json.dumps(index))
    assert total_params(load_model(folder)) == count


def test_an_unknown_family_is_counted_by_who_asks(tmp_path):
    model = load_model(unknown(tmp_path, dtype="bfloat16"), parse_count("1.5B"))
    assert total_params(model) == active_params(model) == 1_500_000_000
    assert stored_bytes(model) == 3_000_000_000
    assert "--parameters" in model.counted


def test_an_unknown_family_without_a_count_says_how_to_give_one(tmp_path):
    with pytest.raises(ConfigError, match=r"model_type: got 'rwkv9'.*or with --parameters"):
        load_model(unknown(tmp_path))


def test_bytes_of_packed_weights_do_not_count_parameters(tmp_path):
    """Four bits in an int32: a count of bytes or of values would be wrong."""
    packed = json.loads((RECENT / "kimi-k2-thinking.json").read_text())["quantization_config"]
    folder = unknown(tmp_path, dtype="bfloat16", quantization_config=packed)
    index = {"metadata": {"total_size": 10**9}, "weight_map": {"x": "a.safetensors"}}
    (folder / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(ConfigError, match="--parameters"):
        load_model(folder)


def test_a_known_family_is_counted_not_told():
    with pytest.raises(ConfigError, match="parameters: got 5"):
        load_model(RECENT / "minimax-m2.json", 5)


@pytest.mark.parametrize(
    ("text", "count"), [("70e9", 70 * B), ("70B", 70 * B), ("1.5T", 1500 * B), ("7", 7)]
)
def test_a_count_as_people_write_it(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "1e16", "1e999999", "9" * 30, "NaN"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(ConfigError, match="parameters"):
        parse_count(text)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"ignore": ["re:("]}, "ignore"),
        ({"ignore": ["re:" + "a" * 300]}, "ignore"),
        ({"ignore": "lm_head"}, "ignore"),
        ({"config_groups": {}}, "config_groups"),
        ({"config_groups": {"g": {"weights": {"type": "int", "num_bits": 3}}}}, "num_bits"),
    ],
)
def test_a_wrong_packing_names_its_field(change, field, tmp_path):
    table = json.loads((RECENT / "kimi-k2-thinking.json").read_text())
    table["quantization_config"] |= change
    path = tmp_path / "config.json"
    path.write_text(json.dumps(table))
    with pytest.raises(ConfigError) as caught:
        load_model(path)
    assert field in caught.value.field
