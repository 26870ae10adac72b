"""Lines and words of topology files that are plain text, each with its place."""

from pathlib import Path
from typing import NamedTuple

from fanfold.errors import ConfigError
from fanfold.input_file import read_input


class Word(NamedTuple):
    """A word and where it stands."""

    text: str
    where: str


def text_of(path: Path) -> str:
    """The whole file.

    Raises:
        ConfigError: no such file, or no UTF-8.
    """
    try:
        return read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise ConfigError(str(path), f"{err.reason} at byte {err.start}", "UTF-8 text") from err


def lines_of(path: Path) -> list[tuple[str, list[str]]]:
    r"""Place and words of each line that has some; ``#`` starts a comment, ``\`` joins lines.

    Raises:
        ConfigError: no such file, no text, or nothing in it.
    """
    rows: list[tuple[str, list[str]]] = []
    is_open = False
    for n, text in enumerate(text_of(path).split("\n"), 1):
        bare = text.partition("#")[0].rstrip()
        words = bare.removesuffix("\\").split()
        if words and is_open:
            rows[-1][1].extend(words)
        elif words:
            rows.append((f"{path}: line {n}", words))
        is_open = bare.endswith("\\") and bool(words or is_open)
    if not rows:
        raise ConfigError(str(path), "nothing", "lines of text")
    return rows


def words_of(path: Path) -> list[Word]:
    """Every word with its line.

    Raises:
        ConfigError: no such file, no text, or nothing in it.
    """
    return [Word(text, where) for where, words in lines_of(path) for text in words]
