"""Fields of a parsed JSON object, each checked where it is read and named where it is wrong."""

from typing import Any

from fanfold.errors import ConfigError
from fanfold.work.model import MAX_SIZE

_MISSING = "nothing"


class Fields:
    """One object; ``prefix`` leads to it in error lines. null counts as left out."""

    def __init__(self, table: dict[str, Any], prefix: str = "") -> None:
        self.table = table
        self.prefix = prefix

    def below(self, key: str) -> "Fields":
        """An object inside this one."""
        value = self.table.get(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Fields(value, f"{self.prefix}{key}.")

    def text(self, key: str) -> str:
        """A string that is there."""
        value = self.table.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def size(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = MAX_SIZE
    ) -> int:
        """A whole number; true and 4.0 are none."""
        value = self.table.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(key, f"a whole number in {least}..{most}")
        return value

    def share(self, key: str, by: str) -> int:
        """One whole number divided by another."""
        whole, parts = self.size(key), self.size(by)
        if whole % parts:
            raise self._wrong(key, f"a multiple of {by}, {parts}")
        return whole // parts

    def sizes(self, key: str, *, below: int) -> tuple[int, ...]:
        """Rising whole numbers from 0; none where the field is left out."""
        value = self.table.get(key)
        if value is None:
            return ()
        allowed = f"rising whole numbers in 0..{below - 1}"
        if not isinstance(value, list) or not all(
            isinstance(v, int) and not isinstance(v, bool) and 0 <= v < below for v in value
        ):
            raise self._wrong(key, allowed)
        if value != sorted(set(value)):
            raise self._wrong(key, allowed)
        return tuple(value)

    def words(self, key: str, allowed: tuple[str, ...], n: int) -> tuple[str, ...]:
        """So many words, each one of those allowed."""
        value = self.table.get(key)
        if (
            not isinstance(value, list)
            or len(value) != n
            or any(v not in allowed for v in value)
        ):
            raise self._wrong(key, f"{n} of {', '.join(allowed)}")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Texts; none where the field is left out."""
        value = self.table.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self._wrong(key, "texts")
        return tuple(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.table.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def _wrong(self, key: str, allowed: str) -> ConfigError:
        got = self.table.get(key)
        return ConfigError(f"{self.prefix}{key}", _MISSING if got is None else got, allowed)
