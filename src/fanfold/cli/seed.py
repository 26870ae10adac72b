"""Seeds of the command line."""

from fanfold.errors import ConfigError
from fanfold.units import MAX_SEED


def checked_seed(seed: int | None) -> int | None:
    """Callback of ``--seed``; None where it is left out.

    Raises:
        ConfigError: negative, or beyond 63 bits.
    """
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise ConfigError("--seed", seed, f"0..{MAX_SEED}")
    return seed
