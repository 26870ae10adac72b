"""Which experts a gate chooses for each token: (T, k) int64, distinct in a row, rising.

    uniform        every set of k experts is as likely as any other
    zipf           an expert's weight is 1 / place**s, its place drawn; k without replacement
    node-limited   DeepSeek-V3 report, section 2.1.2: a group of experts is scored by the sum of
                   its k / M best affinities, the best M groups are kept, of these the best k

Affinities are drawn, alike for all experts. Letters: T = tokens, E = experts, k = top-k, G =
groups of experts, M = groups a token may use. All draws come from the generator that is handed
in, row by row, so what a token chooses hangs on neither its company nor the size of a block.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fanfold.errors import ConfigError
from fanfold.streams import Generator
from fanfold.work.model import Experts

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
GateKind = Literal["uniform", "zipf", "node-limited"]
GATES: tuple[GateKind, ...] = get_args(GateKind)
DEFAULT_SKEW_MILLI = 1000
MAX_SKEW_MILLI = 10_000
BLOCK_TOKENS = 4096


def draw_choices(
    rng: Generator,
    kind: GateKind,
    experts: Experts,
    n_tokens: int,
    skew_milli: int = DEFAULT_SKEW_MILLI,
) -> I64:
    """Experts of each token.

    Args:
        rng: of fanfold.streams.
        skew_milli: of zipf, thousandths of the exponent s; 0 is uniform.

    Raises:
        ConfigError: an unknown gate, a skew out of range, groups that do not fit.
    """
    n, k = experts.n_routed, experts.top_k
    match kind:
        case "uniform":
            return _best(rng, n_tokens, np.zeros(n), k)
        case "zipf":
            if not 0 <= skew_milli <= MAX_SKEW_MILLI:
                raise ConfigError("skew", skew_milli, f"0..{MAX_SKEW_MILLI} thousandths")
            place = rng.permutation(n) + 1
            return _best(rng, n_tokens, -skew_milli / 1000 * np.log(place), k)
        case "node-limited":
            check_groups(experts)
            return _limited(rng, n_tokens, experts)
    raise ConfigError("gate", kind, ", ".join(GATES))


def check_groups(experts: Experts) -> None:
    """Groups that divide the experts and hold a token's k.

    Raises:
        ConfigError: those that do not.
    """
    n, g, m = experts.n_routed, experts.n_groups, experts.top_groups
    if n % g:
        raise ConfigError("n_groups", g, f"a divisor of {n} experts")
    if not 1 <= m <= g or n // g * m < experts.top_k:
        raise ConfigError("top_groups", m, f"1..{g}, holding {experts.top_k} experts together")


def expert_loads(choices: I64, n_experts: int) -> I64:
    """Tokens of each expert; their sum is tokens x k."""
    return np.bincount(choices.ravel(), minlength=n_experts).astype(np.int64)


def _best(rng: Generator, n_tokens: int, log_weight: F64, k: int) -> I64:
    """Take k by weight without replacement: the largest of log weight + Gumbel noise."""
    out = np.empty((n_tokens, k), np.int64)
    for at in range(0, n_tokens, BLOCK_TOKENS):
        n = min(BLOCK_TOKENS, n_tokens - at)
        score = log_weight + rng.gumbel(size=(n, log_weight.size))
        out[at : at + n] = _top(score, k)
    return out


def _limited(rng: Generator, n_tokens: int, experts: Experts) -> I64:
    e, k, g, m = experts.n_routed, experts.top_k, experts.n_groups, experts.top_groups
    n_best = min(max(k // m, 1), e // g)
    out = np.empty((n_tokens, k), np.int64)
    for at in range(0, n_tokens, BLOCK_TOKENS):
        n = min(BLOCK_TOKENS, n_tokens - at)
        score = rng.random((n, g, e // g))
        of_group = np.sort(score, axis=2)[:, :, -n_best:].sum(axis=2)
        kept = np.zeros((n, g), np.bool_)
        np.put_along_axis(kept, _top(of_group, m), True, axis=1)
        score[~kept] = -1
        out[at : at + n] = _top(score.reshape(n, e), k)
    return out


def _top(score: F64, k: int) -> I64:
    """Columns of the k largest of each row, rising."""
    n = score.shape[1]
    found = np.argpartition(score, n - k, axis=1)[:, n - k :]
    return np.sort(found, axis=1).astype(np.int64)
