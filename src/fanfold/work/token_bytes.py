"""Bytes of one token on its way between ranks.

Types of one byte and less carry a scale of 4 bytes for each tile of 128 values (DeepSeek-V3
technical report, section 3.3): 7168 values in fp8 are 7168 + 56 x 4 = 7392 bytes.
"""

from fanfold.work.model import DTYPE_BITS, Dtype, bytes_of

TILE = 128
SCALE_BYTES = 4


def token_bytes(hidden: int, dtype: Dtype) -> int:
    """Bytes of the values of one token, scales included."""
    scales = SCALE_BYTES * -(-hidden // TILE) if DTYPE_BITS[dtype] <= 8 else 0
    return bytes_of(hidden, dtype) + scales
