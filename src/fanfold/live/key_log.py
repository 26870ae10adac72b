"""A file of session and content keys for Wireshark, written only where somebody asks for it.

Named by ``--keylog`` or FANFOLD_KEYLOG. Who reads it can read sealed pushes and forge packets
of links, so a process that writes it says so. One line a key, appended, in a file that only its
owner reads:

    FANFOLD_LINK_1 number key    receiver's number of a session, and the UMAC key of that way
    FANFOLD_PUSH_1 flow key      even flow of a sealed push, and its content key
"""

import os
from collections.abc import Mapping
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.seals.keys import PRIVATE_FILE
from fanfold.seals.link_keys import SessionKeys

KEY_LOG = "FANFOLD_KEYLOG"


class KeyLog:
    """An open key log.

    Raises:
        ConfigError: it cannot be written, or others may read it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE_FILE
            )
        except OSError as error:
            got = f"{path}: {error.strerror}"
            raise ConfigError("--keylog", got, "a file that can be written") from error
        mode = os.fstat(self._fd).st_mode & 0o777
        if mode & 0o077:
            os.close(self._fd)
            raise ConfigError("--keylog", f"{path}: mode {mode:o}", f"{PRIVATE_FILE:o}")

    def warning(self, who: str) -> str:
        """What a process that writes it says at its start."""
        return self.warning_of(who, str(self.path))

    @staticmethod
    def warning_of(who: str, path: str) -> str:
        """The same before it is open."""
        return f"{who} writes its keys to {path}: who has that file reads and forges packets"

    def note_link(self, own: int, peer: int, keys: SessionKeys) -> None:
        """Keys of a session, by the numbers that each end hears by."""
        for number, key in ((peer, keys.out.key), (own, keys.came.key)):
            self._write(f"FANFOLD_LINK_1 {number:08x} {key.hex()}")

    def note_push(self, flow: int, content_key: bytes) -> None:
        """The content key of a sealed push."""
        self._write(f"FANFOLD_PUSH_1 {flow & ~1:08x} {content_key.hex()}")

    def _write(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")  # whole, with others beside

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)


def open_key_log(env: Mapping[str, str]) -> KeyLog | None:
    """The key log that the environment asks for."""
    return KeyLog(Path(env[KEY_LOG])) if env.get(KEY_LOG) else None
