"""Numbers that no stranger can guess, from the system's own generator; never a run's seed."""

import secrets

FLOW_BITS = 31
NONCE_BITS = 32
KEY_BYTES = 32


def draw_flow() -> int:
    """Even flow id of a push; the odd one beside it carries the data."""
    return secrets.randbits(FLOW_BITS) << 1


def draw_nonce() -> int:
    """Nonce of a push; 0 means that there is none."""
    return 1 + secrets.randbelow((1 << NONCE_BITS) - 1)


def draw_content_key() -> bytes:
    """Key of what one push carries."""
    return secrets.token_bytes(KEY_BYTES)


def draw_group() -> int:
    """Number of a group of ranks."""
    return secrets.randbits(32)


def draw_octets(n: int) -> bytes:
    """So many octets, for keys that last as long as a session."""
    return secrets.token_bytes(n)
