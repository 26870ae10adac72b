"""What inference moves: keys and values of a context, and state that replicas keep alike.

A layer keeps a key and a value of each token: 2 x key-value heads x head_dim with grouped-query
attention, one latent and its rotary part with latent attention (DeepSeek-V2, section 2.1).
Replicas that share prefixes tell each other of every block of 16 tokens, the block of vLLM.
"""

from typing import NamedTuple

from fanfold.units import PS_PER_SECOND
from fanfold.work.model import Dtype, Gqa, Model, bytes_of

BLOCK_TOKENS = 16
TOKEN_ID_BYTES = 4
PAYLOAD_BYTES = 4096


class Sync(NamedTuple):
    """State sent to all replicas again and again. acks_per_s: that reach the source."""

    scheme: str
    messages_per_s: int
    source_bps: int
    acks_per_s: int


def cache_bytes(model: Model, n_tokens: int, dtype: Dtype) -> int:
    """Keys and values of so many tokens, of all layers."""
    at = model.attention
    each = 2 * at.n_kv_heads * at.head_dim if isinstance(at, Gqa) else at.kv_rank + at.rope_dim
    return bytes_of(n_tokens * model.n_layers * each, dtype)


def sync_ways(n_bytes: int, every_ps: int, replicas: int) -> tuple[Sync, ...]:
    """``n_bytes`` every ``every_ps`` to each of ``replicas``; rates rounded up.

    Each packet of PAYLOAD_BYTES is acknowledged.
    """
    pkts = -(-n_bytes // PAYLOAD_BYTES)

    def a_second(n: int) -> int:
        return -(-n * PS_PER_SECOND // every_ps)

    return tuple(
        Sync(name, a_second(copies), a_second(8 * copies * n_bytes), a_second(acks * pkts))
        for name, copies, acks in (
            ("unicast", replicas, replicas),
            ("fan", 1, replicas),
            ("fan, folded", 1, 1),
        )
    )
