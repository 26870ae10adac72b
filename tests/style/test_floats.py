"""Core, wire and kernels count in integers: no float literal, no true division (ADR 0002)."""

import ast

import pytest
from tree import modules

FOLDERS = ("core", "wire", "kernels")
NOT_A_KERNEL = "src/fanfold/kernels/jit.py"  # joins paths with "/"


def float_lines(module: ast.Module) -> list[int]:
    return sorted(
        node.lineno
        for node in ast.walk(module)
        if (isinstance(node, ast.Constant) and isinstance(node.value, float | complex))
        or (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div))
    )


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_float(folder: str) -> None:
    files = modules(f"src/fanfold/{folder}/")
    assert files
    found = {name: float_lines(m) for name, m in files.items() if name != NOT_A_KERNEL}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_search_finds_them() -> None:
    assert float_lines(ast.parse("a = 1 // 2\nb = 1 / 2\nc = 2.0\nd /= 2")) == [2, 3, 4]
