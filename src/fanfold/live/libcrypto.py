"""AES of libcrypto as compiled code calls it: contexts by their addresses, one function.

The library is that of the machine, which Python's own ``ssl`` uses as well; a node whose links
have no keys never loads it.
"""

import ctypes
from functools import cache

from fanfold.errors import EnvironmentLack

NAMES = ("libcrypto.so.3", "libcrypto.so.1.1")
KEY_BYTES = 16


class _Library:
    """The functions that make contexts, and the address of the one that uses them."""

    def __init__(self, handle: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.new = handle.EVP_CIPHER_CTX_new
        self.free = handle.EVP_CIPHER_CTX_free
        self.init = handle.EVP_EncryptInit_ex
        self.pad = handle.EVP_CIPHER_CTX_set_padding
        self.aes = handle.EVP_aes_128_ecb
        self.new.restype = self.aes.restype = pointer
        self.new.argtypes = self.aes.argtypes = []
        self.free.restype, self.free.argtypes = None, [pointer]
        self.init.restype = self.pad.restype = number
        self.init.argtypes = [pointer, pointer, pointer, ctypes.c_char_p, ctypes.c_char_p]
        self.pad.argtypes = [pointer, number]
        update = ctypes.cast(handle.EVP_EncryptUpdate, pointer).value
        assert update
        self.update_at = update


@cache
def load() -> _Library:
    """The library of this machine.

    Raises:
        EnvironmentLack: there is none, or it lacks what is needed.
    """
    for name in NAMES:
        try:
            return _Library(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    raise EnvironmentLack(
        f"keys of links need {' or '.join(NAMES)}, and this machine has none that loads; "
        "see `ldconfig -p`, install OpenSSL's library (Debian: libssl3)"
    )


def make_cipher(key: bytes) -> int:
    """Address of a context of AES-128 with a key; ``free_cipher`` gives it back."""
    library = load()
    context = library.new()
    is_made = context and library.init(context, library.aes(), None, key, None) == 1
    if not is_made or library.pad(context, 0) != 1:
        library.free(context)
        raise EnvironmentLack("libcrypto makes no AES-128: `openssl list -providers` says why")
    return int(context)


def free_cipher(context: int) -> None:
    """Give a context back."""
    load().free(context)
