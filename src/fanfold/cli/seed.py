"""Seeds of the command line: as wide as the column that results keep them in."""

from fanfold.errors import ConfigError

MAX_SEED = (1 << 63) - 1


def checked_seed(seed: int | None) -> int | None:
    """Callback of ``--seed``; None where it is left out.

    Raises:
        ConfigError: negative, or beyond 63 bits.
    """
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise ConfigError("--seed", seed, f"0..{MAX_SEED}")
    return seed
