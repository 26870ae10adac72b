"""Key names of each family of models in a ``config.json``, one function a family.

What a family leaves to a default has the default of its configuration class.
"""

from collections.abc import Callable

from msgspec.structs import replace

from fanfold.errors import ConfigError
from fanfold.work.config_fields import Fields
from fanfold.work.model import MAX_EXPERTS, MAX_LAYERS, DeltaNet, Experts, Gqa, Mla, Model


def _gqa(
    fields: Fields,
    *,
    qkv_bias: bool = False,
    out_bias: bool = False,
    has_qk_norm: bool = False,
    default_dim: int = 0,
) -> Gqa:
    n_heads = fields.size("num_attention_heads")
    n_kv_heads = fields.size("num_key_value_heads", default=n_heads)
    head_dim = fields.size("head_dim", default=default_dim or -1)
    if head_dim < 0:
        head_dim = fields.share("hidden_size", "num_attention_heads")
    if n_heads % n_kv_heads:
        raise ConfigError(
            f"{fields.prefix}num_key_value_heads", n_kv_heads, f"a divisor of {n_heads}"
        )
    return Gqa(n_heads, n_kv_heads, head_dim, qkv_bias, out_bias, has_qk_norm)


def _model(
    fields: Fields,
    attention: Gqa | Mla,
    *,
    experts: Experts | None = None,
    is_tied: bool = False,
    inner: str = "intermediate_size",
) -> Model:
    """Key names that all families but GPT-2 have."""
    return Model(
        name="",
        hidden=fields.size("hidden_size"),
        n_layers=fields.size("num_hidden_layers", most=MAX_LAYERS),
        vocab=fields.size("vocab_size"),
        attention=attention,
        inner=fields.size(inner),
        experts=experts,
        is_tied=fields.flag("tie_word_embeddings", default=is_tied),
    )


def _llama(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=False)
    mlp_bias = fields.flag("mlp_bias", default=False)
    made = _model(fields, _gqa(fields, qkv_bias=bias, out_bias=bias))
    return replace(made, mlp_bias=mlp_bias)


def _qwen2(fields: Fields) -> Model:
    return _model(fields, _gqa(fields, qkv_bias=True))


def _qwen3(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=False)
    attention = _gqa(fields, qkv_bias=bias, out_bias=bias, has_qk_norm=True, default_dim=128)
    return _model(fields, attention)


def _mixtral(fields: Fields) -> Model:
    n = fields.size("num_local_experts", most=MAX_EXPERTS)
    experts = Experts(
        n_routed=n,
        top_k=fields.size("num_experts_per_tok", most=n),
        inner=fields.size("intermediate_size"),
        layers=tuple(range(fields.size("num_hidden_layers", most=MAX_LAYERS))),
    )
    return _model(fields, _gqa(fields), experts=experts)


def _qwen2_moe(fields: Fields) -> Model:
    shared = fields.size("shared_expert_intermediate_size")
    experts = _qwen_experts(fields)
    experts = replace(experts, n_shared=1, shared_inner=shared, has_shared_gate=True)
    return _model(fields, _gqa(fields, qkv_bias=True), experts=experts)


def _qwen3_moe(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=False)
    attention = _gqa(fields, qkv_bias=bias, out_bias=bias, has_qk_norm=True)
    return _model(fields, attention, experts=_qwen_experts(fields))


def _qwen_experts(fields: Fields) -> Experts:
    n = fields.size("num_experts", most=MAX_EXPERTS)
    n_layers = fields.size("num_hidden_layers", most=MAX_LAYERS)
    step = fields.size("decoder_sparse_step", default=1)
    dense = set(fields.sizes("mlp_only_layers", below=n_layers))
    return Experts(
        n_routed=n,
        top_k=fields.size("num_experts_per_tok", most=n),
        inner=fields.size("moe_intermediate_size"),
        layers=tuple(i for i in range(n_layers) if (i + 1) % step == 0 and i not in dense),
    )


def _deepseek(fields: Fields) -> Model:
    attention = Mla(
        n_heads=fields.size("num_attention_heads"),
        q_rank=fields.size("q_lora_rank", default=0, least=0),
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim"),
        v_dim=fields.size("v_head_dim"),
    )
    has_bias = fields.table.get("topk_method") == "noaux_tc"
    n_mtp = fields.size("num_nextn_predict_layers", default=0, least=0)
    made = _model(fields, attention, experts=_late_experts(fields, has_bias=has_bias))
    return replace(made, n_mtp=n_mtp)


def _deepseek_index(fields: Fields) -> Model:
    made = _deepseek(fields)
    assert isinstance(made.attention, Mla)
    index = replace(
        made.attention,
        index_heads=fields.size("index_n_heads"),
        index_dim=fields.size("index_head_dim"),
    )
    return replace(made, attention=index)


def _glm4_moe(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=False)
    normed = fields.flag("use_qk_norm", default=False)
    attention = replace(_gqa(fields, qkv_bias=bias, default_dim=128), has_qk_norm=normed)
    n_mtp = fields.size("num_nextn_predict_layers", default=0, least=0)
    experts = _late_experts(fields, has_bias=True)
    return replace(_model(fields, attention, experts=experts), n_mtp=n_mtp)


def _late_experts(fields: Fields, *, has_bias: bool) -> Experts:
    """Experts of all layers but the first, beside some that every token passes."""
    n = fields.size("n_routed_experts", most=MAX_EXPERTS)
    inner = fields.size("moe_intermediate_size")
    n_layers = fields.size("num_hidden_layers", most=MAX_LAYERS)
    first = fields.size("first_k_dense_replace", least=0, most=n_layers)
    step = fields.size("moe_layer_freq", default=1)
    n_shared = fields.size("n_shared_experts", default=0, least=0)
    n_groups = fields.size("n_group", default=1)
    return Experts(
        n_routed=n,
        top_k=fields.size("num_experts_per_tok", most=n),
        inner=inner,
        layers=tuple(i for i in range(first, n_layers) if i % step == 0),
        n_shared=n_shared,
        shared_inner=n_shared * inner,
        has_router_bias=has_bias,
        n_groups=n_groups,
        top_groups=fields.size("topk_group", default=1, most=n_groups),
    )


def _all_experts(fields: Fields, *, has_bias: bool) -> Experts:
    """Experts of every layer, and no other MLP."""
    n = fields.size("num_local_experts", most=MAX_EXPERTS)
    shared = fields.size("shared_intermediate_size", default=0, least=0)
    return Experts(
        n_routed=n,
        top_k=fields.size("num_experts_per_tok", most=n),
        inner=fields.size("intermediate_size"),
        layers=tuple(range(fields.size("num_hidden_layers", most=MAX_LAYERS))),
        n_shared=int(shared > 0),
        shared_inner=shared,
        has_router_bias=has_bias,
    )


def _gpt_oss(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=True)
    attention = replace(
        _gqa(fields, qkv_bias=bias, out_bias=bias, default_dim=64), has_sinks=True
    )
    made = _model(fields, attention, experts=_all_experts(fields, has_bias=True))
    return replace(made, mlp_bias=True)


def _minimax_m2(fields: Fields) -> Model:
    normed = fields.flag("use_qk_norm", default=True)
    each = fields.table.get("qk_norm_type", "per_layer") == "per_layer"
    attention = replace(_gqa(fields), has_qk_norm=normed, norm_each_head=each)
    has_bias = fields.flag("use_routing_bias", default=True)
    made = _model(fields, attention, experts=_all_experts(fields, has_bias=has_bias))
    return replace(made, n_mtp=fields.size("num_mtp_modules", default=0, least=0))


def _qwen3_next(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=False)
    gqa = _gqa(fields, qkv_bias=bias, out_bias=bias, has_qk_norm=True, default_dim=256)
    shared = fields.size("shared_expert_intermediate_size")
    experts = replace(
        _qwen_experts(fields), n_shared=1, shared_inner=shared, has_shared_gate=True
    )
    delta = DeltaNet(
        n_k_heads=fields.size("linear_num_key_heads"),
        n_v_heads=fields.size("linear_num_value_heads"),
        k_dim=fields.size("linear_key_head_dim"),
        v_dim=fields.size("linear_value_head_dim"),
        kernel=fields.size("linear_conv_kernel_dim"),
        layers=_linear_layers(fields),
    )
    made = _model(fields, replace(gqa, is_gated=True), experts=experts)
    return replace(made, delta=delta)


def _linear_layers(fields: Fields) -> tuple[int, ...]:
    """Layers without full attention: as listed, else all but every so manyth."""
    n_layers = fields.size("num_hidden_layers", most=MAX_LAYERS)
    if fields.table.get("layer_types") is None:
        step = fields.size("full_attention_interval", default=4)
        return tuple(i for i in range(n_layers) if (i + 1) % step)
    kinds = fields.words("layer_types", ("linear_attention", "full_attention"), n_layers)
    return tuple(i for i, kind in enumerate(kinds) if kind == "linear_attention")


def _llama4(fields: Fields) -> Model:
    n = fields.size("num_local_experts", most=MAX_EXPERTS)
    n_layers = fields.size("num_hidden_layers", most=MAX_LAYERS)
    step = fields.size("interleave_moe_layer_step", default=1)
    inner = fields.size("intermediate_size")
    layers: tuple[int, ...] = tuple(range(step - 1, n_layers, step))
    if fields.table.get("moe_layers") is not None:
        layers = fields.sizes("moe_layers", below=n_layers)
    experts = Experts(
        n_routed=n,
        top_k=fields.size("num_experts_per_tok", most=n),
        inner=inner,
        layers=layers,
        n_shared=1,
        shared_inner=inner,
    )
    bias = fields.flag("attention_bias", default=False)
    attention = _gqa(fields, qkv_bias=bias, out_bias=bias)
    return _model(fields, attention, inner="intermediate_size_mlp", experts=experts)


def _gemma(fields: Fields) -> Model:
    return _gemma_like(fields, n_norms=2, has_qk_norm=False)


def _gemma2(fields: Fields) -> Model:
    return _gemma_like(fields, n_norms=4, has_qk_norm=False)


def _gemma3(fields: Fields) -> Model:
    return _gemma_like(fields, n_norms=4, has_qk_norm=True)


def _gemma_like(fields: Fields, *, n_norms: int, has_qk_norm: bool) -> Model:
    bias = fields.flag("attention_bias", default=False)
    attention = _gqa(
        fields, qkv_bias=bias, out_bias=bias, has_qk_norm=has_qk_norm, default_dim=256
    )
    return replace(_model(fields, attention, is_tied=True), n_norms=n_norms)


def _neox(fields: Fields) -> Model:
    bias = fields.flag("attention_bias", default=True)
    made = _model(fields, _gqa(fields, qkv_bias=bias, out_bias=bias))
    return replace(made, is_gated=False, mlp_bias=True, has_norm_bias=True)


def _gpt2(fields: Fields) -> Model:
    hidden = fields.size("n_embd")
    n_heads = fields.size("n_head")
    head_dim = fields.share("n_embd", "n_head")
    return Model(
        name="",
        hidden=hidden,
        n_layers=fields.size("n_layer", most=MAX_LAYERS),
        vocab=fields.size("vocab_size"),
        attention=Gqa(n_heads, n_heads, head_dim, qkv_bias=True, out_bias=True),
        inner=fields.size("n_inner", default=4 * hidden),
        is_gated=False,
        mlp_bias=True,
        has_norm_bias=True,
        is_tied=fields.flag("tie_word_embeddings", default=True),
        n_positions=fields.size("n_positions"),
    )


FAMILIES: dict[str, Callable[[Fields], Model]] = {
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _deepseek_index,
    "kimi_k2": _deepseek,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "minimax_m2": _minimax_m2,
    "qwen3_next": _qwen3_next,
    "qwen3_vl_text": _qwen3,
    "qwen3_vl_moe_text": _qwen3_moe,
    "llama4": _llama4,
    "llama4_text": _llama4,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _neox,
}
