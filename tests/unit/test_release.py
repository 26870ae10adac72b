"""Hashes of a release are signed, and say when a file of it is another one."""

import shutil
import subprocess
from pathlib import Path

import pytest
import release

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "toy"
version = "1.0"
[tool.setuptools]
py-modules = ["toy"]
"""
CHANCE = "import os, pathlib\npathlib.Path('toy.py').write_text(f'X = {os.urandom(9)!r}')\n"
SETUP = "import setuptools\nsetuptools.setup()\n"


def run(*words: str, cwd: Path, text: str = "") -> int:
    done = subprocess.run(
        words, cwd=cwd, input=text, capture_output=True, text=True, check=False
    )
    return done.returncode


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("no ssh-keygen here; on Debian: apt install openssh-client")
    root = tmp_path / "toy"
    root.mkdir()
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "toy.py").write_text("X = 1\n")
    commit(root, "init", "--quiet")
    monkeypatch.setattr(release, "ROOT", root)
    key = tmp_path / "key"
    assert run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key), cwd=root) == 0
    kind, public = key.with_suffix(".pub").read_text().split()[:2]
    (tmp_path / "signers").write_text(f'maker namespaces="{release.SPACE}" {kind} {public}\n')
    return root


def commit(root: Path, *first: str) -> None:
    who = ["-c", "user.name=maker", "-c", "user.email=maker@example.com"]
    for words in ([*first], ["add", "."], [*who, "commit", "--quiet", "-m", "toy"]):
        assert not words or run("git", *words, cwd=root) == 0


def made(root: Path, *more: str) -> int:
    out = root.parent / "out"
    return release.main(["--key", str(root.parent / "key"), "--out", str(out), *more])


def is_signed(root: Path) -> bool:
    sums = root.parent / "out" / release.SUMS
    words = ["-Y", "verify", "-f", str(root.parent / "signers"), "-I", "maker"]
    words += ["-n", release.SPACE, "-s", f"{sums}.sig"]
    return run("ssh-keygen", *words, cwd=root, text=sums.read_text()) == 0


def test_a_release_is_signed_and_a_changed_file_of_it_is_found(tree: Path) -> None:
    pins = tree.parent / "run.txt"
    pins.write_text("numpy==2.0\n")
    assert made(tree, "--with", str(pins)) == 0
    out = tree.parent / "out"
    assert {p.name for p in out.iterdir()} == {
        *("SHA256SUMS", "SHA256SUMS.sig", "run.txt", "toy-1.0-py3-none-any.whl")
    }
    assert is_signed(tree)
    assert run("sha256sum", "--check", release.SUMS, cwd=out) == 0
    (out / "run.txt").write_text("numpy==2.1\n")
    assert run("sha256sum", "--check", release.SUMS, cwd=out) != 0
    sums = out / release.SUMS
    sums.write_text(sums.read_text().replace("run.txt", "fun.txt"))
    assert not is_signed(tree)


def test_what_is_not_committed_or_not_there_makes_no_release(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "toy.py").write_text("X = 2\n")
    assert made(tree) == 2
    assert "not committed" in capsys.readouterr().err
    assert release.main(["--key", str(tree / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"release: {tree / 'none'}: got no file")
    assert not (tree.parent / "out").exists()


def test_a_wheel_that_is_another_one_each_time_is_no_release(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "setup.py").write_text(CHANCE + SETUP)
    commit(tree)
    assert made(tree) == 1
    assert "two builds" in capsys.readouterr().err
