"""How long a GPU computes: by its arithmetic or by its memory, whichever takes longer.

A multiplication by a matrix costs 2 floating-point operations for each parameter and token
(Kaplan et al., 2020, section 2.1), and reads each parameter once. Attention over the sequence
and its cache are left out. Letters: R = ranks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fanfold.study.ask import Setting
from fanfold.units import PS_PER_SECOND
from fanfold.work.model import Model, bytes_of, count_params

I64 = NDArray[np.int64]
FLOPS = 2
TERA = 10**12


class LayerParams(NamedTuple):
    """Parameters of one layer that routes: what every token meets, and one routed expert."""

    dense: int
    expert: int


def layer_params(model: Model) -> LayerParams:
    """Parameters of a layer that routes tokens.

    The model is one with experts.
    """
    parts, experts = count_params(model), model.experts
    assert experts is not None
    n_moe = len(model.moe_layers)
    dense = parts["attention"] // model.n_layers
    dense += (parts["shared_experts"] + parts["router"]) // n_moe
    return LayerParams(dense, parts["experts"] // (n_moe * experts.n_routed))


def compute_ps(setting: Setting, n_params: int, n_tokens: I64, n_read: int) -> I64:
    """(R,) time of each GPU.

    Args:
        n_params: that a token meets. n_tokens: (R,) of each GPU. n_read: parameters that are
            read once, in the data type of the model.
    """
    flops_per_s = setting.number("tflops") * TERA
    work = FLOPS * n_params * n_tokens.astype(object) * PS_PER_SECOND
    by_arithmetic = -(-work // flops_per_s)
    n_bytes = bytes_of(n_read, setting.model.dtype)
    by_memory = -(-n_bytes * PS_PER_SECOND // setting.number("memory"))
    times: I64 = np.maximum(by_arithmetic.astype(np.int64), by_memory)
    return times
