"""docs/threats.md: each "cannot" names tests, and each of them is there."""

import ast
import re

from tree import modules, texts

PAGE = "docs/threats.md"
NAMED = re.compile(r"`(test_\w+)`")


def test_every_cannot_names_tests_that_exist() -> None:
    tests = {
        node.name
        for module in modules("tests/").values()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    page = texts()[PAGE]
    head = page.index("| actor | cannot | test |")
    rows = page[head : page.index("\n\n", head)].splitlines()[2:]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []
    assert set(NAMED.findall(page)) - tests == set()
