"""Keys of a receiver, looked at while it runs: its own, and whom it trusts.

Files are looked at once a second. What is faulty is told of, and what was read before counts; a
trust file that went does not open a receiver. Who is trusted no more has its pushes ended, also
those under way. Keys that end are warned of, once a day.
"""

from collections.abc import Callable
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.live.clock import unix_s
from fanfold.live.key_watch import Stamp, stamp_of
from fanfold.push.gate import Gate
from fanfold.seals.keys import KEY_FILE, KeyPair, load_keys
from fanfold.seals.trust import NEVER_S, ending, load_trust, trust_at
from fanfold.units import PS_PER_SECOND

LOOK_PS = PS_PER_SECOND
DAY_S = 86_400


class TrustWatch:
    """Lets a gate have the keys that its files have now.

    Args:
        folder, trusted: where the keys of the node and its trust file are. on_change: the gate
        has others. tell: hears of what is faulty, and of keys that end.
    """

    def __init__(
        self,
        gate: Gate,
        folder: Path,
        trusted: Path,
        on_change: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self._gate, self._files = gate, (folder / KEY_FILE, trusted)
        self._on_change, self._tell = on_change, tell
        self._trust = gate.trust
        self._seen: tuple[Stamp, ...] | None = None  # what was given may be of before a change
        self._next_ps = self._warned_s = self._over_s = 0

    def look(self, now_ps: int) -> None:
        """Read files that changed, end keys whose time is over; once a second."""
        if now_ps < self._next_ps:
            return
        self._next_ps = now_ps + LOOK_PS
        now_s, seen = unix_s(), self._stamps()
        if seen != self._seen or now_s >= self._over_s:
            self._take(now_s, self._read() if seen != self._seen else self._gate.keys)
            self._seen = seen
        if now_s >= self._warned_s + DAY_S:
            self._warned_s = now_s
            for line in ending(self._trust or {}, now_s):
                self._tell(line)

    def _take(self, now_s: int, keys: KeyPair | None) -> None:
        """Let the gate have these keys, and the trust of this time."""
        trust = trust_at(self._trust, now_s) if self._trust is not None else None
        ends = [row.until_s for rows in (trust or {}).values() for row in rows]
        self._over_s = min((end for end in ends if end > now_s), default=NEVER_S)
        if (keys, trust) != (self._gate.keys, self._gate.trust):
            self._gate.use(keys, trust)
            self._on_change()

    def _read(self) -> KeyPair | None:
        """Keys of the node as its file has them; notes whom it trusts."""
        keys, (key_file, trusted) = self._gate.keys, self._files
        try:
            found = load_keys(key_file.parent) if key_file.exists() else keys
            if trusted.exists() or self._trust is not None:
                self._trust = load_trust(trusted)
        except ConfigError as error:
            self._tell(f"keys stay as they are: {error}")
            return keys
        self._warned_s = 0
        if keys is not None and found is not None and found.public == keys.public:
            return keys
        return found

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(stamp_of(path) for path in self._files)
