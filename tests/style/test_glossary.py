"""Every capital abbreviation of a docstring stands in GLOSSARY.md."""

import ast
import re
from collections.abc import Iterator

from tree import modules, texts

WORD = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]+(?![A-Za-rt-z0-9_])")
TERM = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)
METAVARS = {"BITS", "DIGEST", "FILE", "HEX", "HOST", "IDS", "KEY", "NAME", "PATH", "VALUE"}
"""Stand for what an operator types, or for a part of a file name."""


def docstrings(module: ast.Module) -> Iterator[str]:
    """Docstrings, and the strings that explain constants."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def names_of(module: ast.Module) -> Iterator[str]:
    """Names in code: constants, members of enumerations."""
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.alias(name=name):
                yield name


def glossary_words() -> set[str]:
    terms = " ".join(TERM.findall(texts()["GLOSSARY.md"]))
    return set(WORD.findall(terms))


def test_abbreviations_are_explained() -> None:
    source = modules("src/")
    code = {name for module in source.values() for name in names_of(module)}
    known = glossary_words() | METAVARS | code
    unknown = {
        (word, name)
        for name, module in source.items()
        for text in docstrings(module)
        for word in WORD.findall(text)
        if word not in known
    }
    assert unknown == set()


def test_glossary_is_sorted_and_each_term_stands_once() -> None:
    for section in texts()["GLOSSARY.md"].split("\n## ")[1:]:
        terms = [t.lower() for t in TERM.findall(section)[2:]]
        assert terms == sorted(set(terms)), section.splitlines()[0]
