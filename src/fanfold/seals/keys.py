"""The keys of a node: one to sign with, one to agree on secrets with; and their public halves.

A public key is one word of text, "ff1:" and 86 letters of base64url: Ed25519 key, X25519 key.
The secret halves are one line of the same form, "ff1-secret:", in a file that only its owner
reads. What a folder of keys holds is in KEY_FILE, PUBLIC_FILE, TRUST_FILE, NEXT_FILE.
"""

import base64
import binascii
import os
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.folders import state_home
from fanfold.seals.primitives import KEY_BYTES, public_of_agreement, public_of_signing

KEY_FILE, PUBLIC_FILE, TRUST_FILE, NEXT_FILE = "key", "key.pub", "trusted.toml", "key.next"
PLACED_FILE = "placed.json"
"""What signed pushes put here last (push/placed.py)."""
PUBLIC, SECRET = "ff1:", "ff1-secret:"
BOTH_BYTES = 2 * KEY_BYTES
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
FINGERPRINT = 12
"""Letters of a public key that people compare at a glance; never enough to trust one."""


class PublicKey(NamedTuple):
    """The public halves of a node's keys."""

    signing: bytes
    agreement: bytes

    @property
    def text(self) -> str:
        """One word, as trust files and messages have it."""
        return PUBLIC + _text(self.signing + self.agreement)

    @property
    def short(self) -> str:
        """Its beginning, for messages."""
        return self.text[: len(PUBLIC) + FINGERPRINT] + ".."


class KeyPair:
    """The keys of a node. signing, agreement: secret halves, 32 bytes each."""

    def __init__(self, signing: bytes, agreement: bytes) -> None:
        self.signing, self.agreement = signing, agreement
        self.public = PublicKey(public_of_signing(signing), public_of_agreement(agreement))

    @property
    def secret_text(self) -> str:
        """The line of a key file."""
        return SECRET + _text(self.signing + self.agreement)


def read_public(text: str, field: str) -> PublicKey:
    """Public key of its text.

    Raises:
        ConfigError: it is none; names the field.
    """
    both = _bytes(text.strip(), PUBLIC)
    if both is None:
        allowed = f"a public key: {PUBLIC} and 86 letters, as `fanfold keys show` prints it"
        raise ConfigError(field, text.strip()[:100], allowed)
    return PublicKey(both[:KEY_BYTES], both[KEY_BYTES:])


def read_secret(text: str, field: str) -> KeyPair:
    """Keys of the line of a key file.

    Raises:
        ConfigError: it is none; never shows what stands there.
    """
    both = _bytes(text.strip(), SECRET)
    if both is None:
        raise ConfigError(field, "no key of fanfold", "a file that `fanfold keys init` made")
    return KeyPair(both[:KEY_BYTES], both[KEY_BYTES:])


def draw_keys() -> KeyPair:
    """New keys, from the generator of the system."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - only here
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
        X25519PrivateKey,
    )

    signing = Ed25519PrivateKey.generate().private_bytes_raw()
    return KeyPair(signing, X25519PrivateKey.generate().private_bytes_raw())


def keys_folder(node: str) -> Path:
    """Where the keys of a node are where nobody says otherwise."""
    return state_home() / "keys" / node


def make_keys(folder: Path, file: str = KEY_FILE) -> KeyPair:
    """Draw keys into a folder that has none.

    Raises:
        ConfigError: it has some. EnvironmentLack: it may not be written.
    """
    if (folder / file).exists():
        raise ConfigError("--keys", f"{folder / file}: exists", "a folder without keys")
    keys = draw_keys()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        _write(folder / file, keys.secret_text)
        if file == KEY_FILE:
            _write(folder / PUBLIC_FILE, keys.public.text)
    except OSError as error:
        raise EnvironmentLack(f"{folder}: {error.strerror}; name another by --keys") from error
    return keys


def load_keys(folder: Path, file: str = KEY_FILE) -> KeyPair:
    """Keys of a folder.

    Raises:
        ConfigError: there are none, or others than their owner may read them.
    """
    path = folder / file
    return read_secret(read_private(path, "a folder that `fanfold keys init` made"), str(path))


def read_private(path: Path, allowed: str) -> str:
    """Text of a file that only its owner may read.

    Args:
        allowed: what there is to be.

    Raises:
        ConfigError: there is none, or others may read it.
    """
    try:
        mode = path.stat().st_mode & 0o777
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError("--keys", f"{path}: {what}", allowed) from error
    if mode & 0o077:
        safe = f"{PRIVATE_FILE:o}; draw new keys if somebody may have read them"
        raise ConfigError("--keys", f"{path}: mode {mode:o}", safe)
    return text


def use_next(folder: Path) -> KeyPair:
    """Put the staged keys in the place of the old ones, which are gone then.

    Raises:
        ConfigError: none are staged.
    """
    keys = load_keys(folder, NEXT_FILE)
    (folder / NEXT_FILE).replace(folder / KEY_FILE)
    _write(folder / PUBLIC_FILE, keys.public.text)
    return keys


def write_whole(path: Path, text: str) -> None:
    """Write a file that only its owner reads; it is the old one or the new one, always."""
    _write(path, text)


def _write(path: Path, line: str) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
    try:
        os.fchmod(fd, PRIVATE_FILE)
        os.write(fd, (line.rstrip("\n") + "\n").encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    fresh.replace(path)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str, mark: str) -> bytes | None:
    """The two halves; one text has one value, and one value one text."""
    if not text.startswith(mark):
        return None
    word = text[len(mark) :]
    try:
        raw = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == BOTH_BYTES and _text(raw) == word else None
