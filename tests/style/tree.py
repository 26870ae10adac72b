"""The files of this project as style tests see them: written by hand, hidden only in .ci."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "bench", "docs", "examples", "src", "tests")
SUFFIXES = {"", ".css", ".j2", ".js", ".lua", ".md", ".py", ".toml", ".txt", ".vec"}


@cache
def texts() -> dict[str, str]:
    """Every text file, by its path from the root."""
    files = [p for p in ROOT.iterdir() if p.is_file() and not p.name.startswith(".")]
    for folder in FOLDERS:
        files += (ROOT / folder).rglob("*")
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(files)
        if path.is_file() and path.suffix in SUFFIXES and not is_output(path)
    }


@cache
def modules(under: str = "") -> dict[str, ast.Module]:
    """Every Python file below a folder, parsed."""
    return {
        name: ast.parse(text, name)
        for name, text in texts().items()
        if name.endswith(".py") and name.startswith(under)
    }


def is_output(path: Path) -> bool:
    """Made by a tool, not by hand."""
    parts = path.relative_to(ROOT).parts
    return "__pycache__" in parts or any(part.endswith(".egg-info") for part in parts)
