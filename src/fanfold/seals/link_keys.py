"""The key of a node for its links: one X25519 key, apart from those that it signs with.

A public key is one word of text, "fl1:" and 43 letters of base64url, as the fabric file has it;
the secret one is a line of the same form, "fl1-secret:", in a file that only its owner reads.
What two ends of a link make of theirs: ``session_keys``.
"""

import base64
import binascii
from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.seals.keys import PRIVATE_FOLDER, read_private, write_whole
from fanfold.seals.noise import Transport
from fanfold.seals.primitives import KEY_BYTES, derive, public_of_agreement
from fanfold.seals.umac import KEY_BYTES as UMAC_BYTES
from fanfold.seals.umac import UmacKeys, umac_keys

LINK_KEY_FILE, NEXT_LINK_KEY_FILE = "link.key", "link.next.key"
PUBLIC, SECRET = "fl1:", "fl1-secret:"
LABEL = b"fanfold-link-1"


class LinkKey:
    """A node's key for its links. private: 32 octets."""

    def __init__(self, private: bytes) -> None:
        self.private = private
        self.public = public_of_agreement(private)

    @property
    def text(self) -> str:
        """The public half as a fabric file has it."""
        return PUBLIC + _text(self.public)


class SessionKeys(NamedTuple):
    """UMAC keys of a session, each way."""

    out: UmacKeys
    came: UmacKeys


def session_keys(transport: Transport, *, is_initiator: bool) -> SessionKeys:
    """What one end of a handshake writes and checks trailers with."""
    first, second = (
        umac_keys(derive(key, LABEL)[:UMAC_BYTES])
        for key in (transport.from_initiator, transport.from_responder)
    )
    return SessionKeys(first, second) if is_initiator else SessionKeys(second, first)


def read_link_public(text: str, field: str) -> bytes:
    """Public key of its text, 32 octets.

    Raises:
        ConfigError: it is none; names the field.
    """
    raw = _bytes(text, PUBLIC)
    if raw is None:
        allowed = f"a key of a link: {PUBLIC} and 43 letters, of `fanfold keys links`"
        raise ConfigError(field, text[:100], allowed)
    return raw


def make_link_key(folder: Path, file: str = LINK_KEY_FILE) -> LinkKey:
    """Draw a key into a folder, or take the one that is there.

    Raises:
        ConfigError: what is there is none. EnvironmentLack: the folder may not be written.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415 - only here
        X25519PrivateKey,
    )

    path = folder / file
    if path.exists():
        return load_link_key(folder, file)
    key = LinkKey(X25519PrivateKey.generate().private_bytes_raw())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        write_whole(path, SECRET + _text(key.private))
    except OSError as error:
        raise EnvironmentLack(f"{folder}: {error.strerror}; name another by --keys") from error
    return key


def use_next_link_key(folder: Path) -> LinkKey:
    """Put the staged key in the place of the old one, which is gone then.

    Raises:
        ConfigError: none is staged.
    """
    key = load_link_key(folder, NEXT_LINK_KEY_FILE)
    (folder / NEXT_LINK_KEY_FILE).replace(folder / LINK_KEY_FILE)
    return key


def load_link_key(folder: Path, file: str = LINK_KEY_FILE) -> LinkKey:
    """Key of a folder.

    Raises:
        ConfigError: there is none, or others than its owner may read it.
    """
    path = folder / file
    text = read_private(path, "a folder that `fanfold keys links` filled").strip()
    raw = _bytes(text, SECRET)
    if raw is None:
        raise ConfigError(str(path), "no key of a link", "a file of `fanfold keys links`")
    return LinkKey(raw)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str, mark: str) -> bytes | None:
    """32 octets; one text has one value, and one value one text."""
    word = text.removeprefix(mark)
    if word == text:
        return None
    try:
        raw = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == KEY_BYTES and _text(raw) == word else None
