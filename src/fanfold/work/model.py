"""Shape of a decoder-only transformer, and how many parameters each part of it has.

Counted from the shape alone, exactly: a matrix is rows times columns, a bias its rows. Letters:
h = hidden size, q = heads x head_dim, kv = key-value heads x head_dim, r = rank of a latent.

    grouped-query attention   h q + 2 h kv + q h                  (GQA, multi-head where kv = q)
    latent attention          h r_q + r_q heads (nope + rope)     (MLA, DeepSeek-V2 section 2.1)
                              + h (r_kv + rope) + r_kv heads (nope + v) + heads v h
    its index of tokens       r_q heads' dim' + h dim' + h heads' (DeepSeek-V3.2, section 2.1)
    gated delta net           h (2 qk + 2 v + 2 heads) + kernel (2 qk + v) + v h + 2 heads
                              (Qwen3-Next: qk and v are heads x their width)
    MLP of inner size i       3 h i gated, 2 h i plain
    router                    h x experts, and a bias of each expert where there is one

A tied head is not counted again. Modules that predict further tokens (MTP) are counted apart:
the published totals leave them out. A model of a family that is not known has no parts but
what it was told, and says by whom.
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
    "told",
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
    """Attention with keys and values shared by groups of heads.

    is_gated: queries come with a gate of their size. has_sinks: a logit of each head.
    norm_each_head: the norms of queries and keys have a weight for each head.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    qkv_bias: bool = False
    out_bias: bool = False
    has_qk_norm: bool = False
    is_gated: bool = False
    has_sinks: bool = False
    norm_each_head: bool = False

    def n_params(self, hidden: int) -> int:
        """Projections and their biases, and sinks."""
        q, kv = self.n_heads * self.head_dim, 2 * self.n_kv_heads * self.head_dim
        into = q * (1 + int(self.is_gated)) + kv
        biases = into * int(self.qkv_bias) + hidden * int(self.out_bias)
        return hidden * (into + q) + biases + self.n_heads * int(self.has_sinks)

    def n_norm_params(self) -> int:
        """One RMS norm of queries, one of keys, shared by all heads unless said otherwise."""
        n = self.n_heads + self.n_kv_heads if self.norm_each_head else 2
        return n * self.head_dim * int(self.has_qk_norm)


class Mla(msgspec.Struct, frozen=True, tag="mla"):
    """Attention through a latent of keys and values; q_rank 0: queries have none.

    index_heads, index_dim: of an index that picks the tokens to look at; 0: all are.
    """

    n_heads: int
    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    index_heads: int = 0
    index_dim: int = 0

    def n_params(self, hidden: int) -> int:
        """Projections, those of the index among them."""
        q = self.n_heads * (self.nope_dim + self.rope_dim)
        query = self.q_rank * (hidden + q) if self.q_rank else hidden * q
        latent = hidden * (self.kv_rank + self.rope_dim)
        values = self.kv_rank * self.n_heads * (self.nope_dim + self.v_dim)
        index = self.q_rank * self.index_heads * self.index_dim
        index += hidden * (self.index_dim + self.index_heads)
        return query + latent + values + index + self.n_heads * self.v_dim * hidden

    def n_norm_params(self) -> int:
        """RMS norms of both latents; the index's norm has a bias."""
        return self.q_rank + self.kv_rank + 2 * self.index_dim


class DeltaNet(msgspec.Struct, frozen=True):
    """What some layers have in the place of attention; layers: which, from 0, rising."""

    n_k_heads: int
    n_v_heads: int
    k_dim: int
    v_dim: int
    kernel: int
    layers: tuple[int, ...]

    def n_params(self, hidden: int) -> int:
        """Projections, convolution, and two numbers of each head of values."""
        qk, v = 2 * self.n_k_heads * self.k_dim, self.n_v_heads * self.v_dim
        into = qk + 2 * v + 2 * self.n_v_heads
        return hidden * (into + v) + self.kernel * (qk + v) + 2 * self.n_v_heads

    def n_norm_params(self) -> int:
        """One RMS norm, shared by all heads."""
        return self.v_dim


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


class Packing(msgspec.Struct, frozen=True):
    """Weights that are stored in few bits, with a scale for each group of them.

    group: weights that share a scale; 0: so many that it does not count. scale_bits: of one.
    plain: parts that are stored in ``plain_dtype``; embeddings, routers, norms and biases are.
    """

    group: int
    scale_bits: int
    plain: tuple[Part, ...]
    plain_dtype: Dtype


class Model(msgspec.Struct, frozen=True):
    """One transformer.

    inner: of the dense MLP. mlp_bias: of every matrix of an MLP. n_norms: of a layer, each of
    the hidden size, twice that with biases. n_positions: learned embeddings of places, or 0.
    n_mtp: modules that predict further tokens. dtype: of the stored weights; packing: where
    only some are. delta: layers that have it have no attention. told: parameters of a model
    whose shape says too little, else 0. counted: what the count leaves out, or who told it.
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
    packing: Packing | None = None
    delta: DeltaNet | None = None
    told: int = 0
    counted: str = ""

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """Layers that route tokens."""
        return self.experts.layers if self.experts else ()


def count_params(model: Model) -> dict[Part, int]:
    """Parameters by part; their sum is the model, without modules for further tokens."""
    if model.told:
        return dict.fromkeys(PARTS, 0) | {"told": model.told}
    n_moe = len(model.moe_layers)
    norm = model.hidden * (1 + int(model.has_norm_bias))
    matrix = model.vocab * model.hidden
    experts, shared, router = _moe_params(model)
    return {
        "embeddings": matrix + model.n_positions * model.hidden,
        "attention": sum(n for n, _ in attention_params(model)),
        "dense_mlp": (model.n_layers - n_moe) * _mlp(model, model.inner),
        "experts": n_moe * experts,
        "shared_experts": n_moe * shared,
        "router": n_moe * router,
        "norms": (model.n_layers * model.n_norms + 1) * norm
        + sum(n for _, n in attention_params(model)),
        "head": 0 if model.is_tied else matrix,
        "told": 0,
    }


def attention_params(model: Model) -> list[tuple[int, int]]:
    """Parameters of each layer's attention, or what it has in its place, and of its norms."""
    full = model.attention.n_params(model.hidden), model.attention.n_norm_params()
    each = [full] * model.n_layers
    if (delta := model.delta) is not None:
        for i in delta.layers:
            each[i] = delta.n_params(model.hidden), delta.n_norm_params()
    return each


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


def stored_bytes(model: Model) -> int:
    """Bytes of the weights as stored."""
    if model.packing is None:
        return bytes_of(total_params(model), model.dtype)
    return sum(part_bytes(model, part, n) for part, n in count_params(model).items())


def part_bytes(model: Model, part: Part, n: int) -> int:
    """Bytes of so many parameters of a part, as stored; rounded up."""
    packing = model.packing
    if packing is None:
        return bytes_of(n, model.dtype)
    if part in packing.plain or part in ("embeddings", "router", "norms"):
        return bytes_of(n, packing.plain_dtype)
    few, whole = _bias_share(model, part)
    n_biases = n * few // whole
    n_bits = (n - n_biases) * DTYPE_BITS[model.dtype]
    if packing.group:
        n_bits += (n - n_biases) // packing.group * packing.scale_bits
    return -(-n_bits // 8) + bytes_of(n_biases, packing.plain_dtype)


def _bias_share(model: Model, part: Part) -> tuple[int, int]:
    """Of an MLP's parameters those that are biases, and all of them."""
    experts = model.experts
    if not model.mlp_bias or part not in ("dense_mlp", "experts", "shared_experts"):
        return 0, 1
    inner = model.inner
    if experts is not None and part != "dense_mlp":
        inner = experts.inner if part == "experts" else experts.shared_inner
    whole = _mlp(model, inner)
    return (1 + int(model.is_gated)) * inner + model.hidden, whole


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
