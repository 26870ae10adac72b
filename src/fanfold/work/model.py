"""Shape of a decoder-only transformer, and how many parameters each part of it has.

Counted from the shape alone, exactly: a matrix is rows times columns, a bias its rows. Letters:
h = hidden size, q = heads x head_dim, kv = key-value heads x head_dim, r = rank of a latent.

    grouped-query attention   h q + 2 h kv + q h                  (GQA, multi-head where kv = q)
    latent attention          h r_q + r_q heads (nope + rope)     (MLA, DeepSeek-V2 section 2.1)
                              + h (r_kv + rope) + r_kv heads (nope + v) + heads v h
    MLP of inner size i       3 h i gated, 2 h i plain
    router                    h x experts, and a bias of each expert where there is one

A tied head is not counted again. Modules that predict further tokens (MTP) are counted apart:
the published totals leave them out.
"""

from typing import Literal, get_args

import msgspec

from fanfold.errors import ConfigError

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
Part = Literal[
    "embeddings",
    "attention",
    "dense_mlp",
    "experts",
    "shared_experts",
    "router",
    "norms",
    "head",
]
PARTS: tuple[Part, ...] = get_args(Part)
DTYPE_BITS: dict[Dtype, int] = {
    "fp32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "fp4": 4,
    "int4": 4,
}
MAX_SIZE = 2**31
MAX_LAYERS = 2**14
MAX_EXPERTS = 2**16


class Gqa(msgspec.Struct, frozen=True, tag="gqa"):
    """Attention with keys and values shared by groups of heads."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    has_qk_norm: bool = False

    def n_params(self, hidden: int) -> int:
        """Projections and their biases."""
        q, kv = self.n_heads * self.head_dim, 2 * self.n_kv_heads * self.head_dim
        return (
            hidden * (2 * q + kv) + (q + kv) * int(self.qkv_bias) + hidden * int(self.out_bias)
        )

    def n_norm_params(self) -> int:
        """One RMS norm of queries, one of keys, shared by all heads."""
        return 2 * self.head_dim * int(self.has_qk_norm)


class Mla(msgspec.Struct, frozen=True, tag="mla"):
    """Attention through a latent of keys and values; q_rank 0: queries have none."""

    n_heads: int
    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int

    def n_params(self, hidden: int) -> int:
        """Projections."""
        q = self.n_heads * (self.nope_dim + self.rope_dim)
        query = self.q_rank * (hidden + q) if self.q_rank else hidden * q
        latent = hidden * (self.kv_rank + self.rope_dim)
        values = self.kv_rank * self.n_heads * (self.nope_dim + self.v_dim)
        return query + latent + values + self.n_heads * self.v_dim * hidden

    def n_norm_params(self) -> int:
        """RMS norms of both latents."""
        return self.q_rank + self.kv_rank


class Experts(msgspec.Struct, frozen=True):
    """The MLP of those layers that route tokens.

    layers: which do, from 0. shared_inner: inner size of all shared experts together, which
    every token passes. n_groups, top_groups: of so many groups, those that a token may use.
    """

    n_routed: int
    top_k: int
    inner: int
    layers: tuple[int, ...]
    n_shared: int = 0
    shared_inner: int = 0
    has_shared_gate: bool = False
    has_router_bias: bool = False
    n_groups: int = 1
    top_groups: int = 1


class Model(msgspec.Struct, frozen=True):
    """One transformer.

    inner: of the dense MLP. mlp_bias: of every matrix of an MLP. n_norms: of a layer, each of
    the hidden size, twice that with biases. n_positions: learned embeddings of places, or 0.
    n_mtp: modules that predict further tokens. dtype: of the stored weights.
    """

    name: str
    hidden: int
    n_layers: int
    vocab: int
    attention: Gqa | Mla
    inner: int
    experts: Experts | None = None
    is_gated: bool = True
    mlp_bias: bool = False
    n_norms: int = 2
    has_norm_bias: bool = False
    is_tied: bool = False
    n_positions: int = 0
    n_mtp: int = 0
    dtype: Dtype = "bf16"

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Layers that route tokens."""
        return self.experts.layers if self.experts else ()


def count_params(model: Model) -> dict[Part, int]:
    """Parameters by part; their sum is the model, without modules for further tokens."""
    n_moe = len(model.moe_layers)
    norm = model.hidden * (1 + int(model.has_norm_bias))
    matrix = model.vocab * model.hidden
    experts, shared, router = _moe_params(model)
    return {
        "embeddings": matrix + model.n_positions * model.hidden,
        "attention": model.n_layers * model.attention.n_params(model.hidden),
        "dense_mlp": (model.n_layers - n_moe) * _mlp(model, model.inner),
        "experts": n_moe * experts,
        "shared_experts": n_moe * shared,
        "router": n_moe * router,
        "norms": model.n_layers * (model.n_norms * norm + model.attention.n_norm_params())
        + norm,
        "head": 0 if model.is_tied else matrix,
    }


def total_params(model: Model) -> int:
    """Parameters of the whole model."""
    return sum(count_params(model).values())


def active_params(model: Model) -> int:
    """Parameters that one token meets: all but the routed experts it does not choose."""
    if model.experts is None:
        return total_params(model)
    n, k = model.experts.n_routed, model.experts.top_k
    return total_params(model) - count_params(model)["experts"] // n * (n - k)


def bytes_of(n_values: int, dtype: Dtype) -> int:
    """Bytes of so many values, rounded up to a whole byte."""
    return -(-n_values * DTYPE_BITS[dtype] // 8)


def dtype_of(text: str, field: str) -> Dtype:
    """A data type by name.

    Raises:
        ConfigError: no such type.
    """
    for name in DTYPE_BITS:
        if name == text:
            return name
    raise ConfigError(field, text, ", ".join(DTYPE_BITS))


def _mlp(model: Model, inner: int) -> int:
    n_up = 1 + int(model.is_gated)
    biases = (n_up * inner + model.hidden) * int(model.mlp_bias)
    return (n_up + 1) * model.hidden * inner + biases


def _moe_params(model: Model) -> tuple[int, int, int]:
    """Routed experts, shared experts and router of one layer."""
    e = model.experts
    if e is None:
        return 0, 0, 0
    shared = _mlp(model, e.shared_inner) if e.shared_inner else 0
    router = model.hidden * (e.n_routed + int(e.has_shared_gate))
    return (
        e.n_routed * _mlp(model, e.inner),
        shared,
        router + e.n_routed * int(e.has_router_bias),
    )
