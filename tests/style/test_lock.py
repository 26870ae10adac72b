"""pyproject.toml, the files of requirements/ and what make installs agree."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version

import pytest
from lock_file import Pin, faults, pins_of
from tree import ROOT, texts

LOCKS = ROOT / "requirements"
PROJECT = tomllib.loads(texts()["pyproject.toml"])
HASH = "--hash=sha256:" + "0" * 64


def read(name: str) -> dict[str, list[Pin]]:
    return pins_of((LOCKS / f"{name}.txt").read_text())


def versions(pins: list[Pin]) -> set[str]:
    return {pin.version for pin in pins}


def extras(*names: str) -> list[str]:
    return [
        line for name in names for line in PROJECT["project"]["optional-dependencies"][name]
    ]


def test_all_that_is_asked_for_is_pinned_with_hashes() -> None:
    run, build = PROJECT["project"]["dependencies"], PROJECT["build-system"]["requires"]
    assert (LOCKS / "build.in").read_text().split() == build
    assert faults(read("run"), run + build) == []
    more = extras("dev", "report", "slurm", "study")
    assert "fanfold[report,slurm,study]" in more
    assert faults(read("dev"), run + build + more, own="fanfold") == []
    assert faults(read("docs"), run + build + extras("docs")) == []
    assert faults(read("clusters"), run + build + extras("dask", "study"), own="fanfold") == []
    for name in ("audit", "model", "mutants", "sbom"):
        assert faults(read(name), (LOCKS / f"{name}.in").read_text().split()) == []


def test_what_runs_is_what_was_tested() -> None:
    dev = read("dev")
    assert read("run").keys() <= dev.keys()
    for lock in ("run", "docs", "clusters", "mutants"):
        both = {name: pins for name, pins in read(lock).items() if name in dev}
        assert {n: p for n, p in both.items() if versions(p) != versions(dev[n])} == {}


def test_what_pins_need_themselves_is_pinned() -> None:
    """As far as those very versions are installed here."""
    pins, n = read("dev"), 0
    for name, each in pins.items():
        try:
            is_here = version(name) in {pin.version for pin in each}
        except PackageNotFoundError:
            continue
        n += is_here
        assert not is_here or faults(pins, requires(name) or []) == [], name
    assert n > len(pins) // 2


def test_no_host_is_named() -> None:
    for file in LOCKS.iterdir():
        assert re.search(r"://|index-url|find-links|^ *#", file.read_text(), re.M) is None, file


def test_make_installs_nothing_else() -> None:
    lines = [line for line in texts()["Makefile"].splitlines() if "PIP) install" in line]
    loose = [
        line for line in lines if "--require-hashes" not in line and "--no-deps" not in line
    ]
    assert [line for line in loose if "$(TORCH)" not in line and "'uv>=" not in line] == []
    assert sum("--require-hashes" in line for line in lines) == 1
    for name in ("run", "dev", "docs", "clusters", "model", "mutants"):
        assert f"$(LOCKED)/{name}.txt" in texts()["Makefile"]


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        (f"a==1.5 {HASH}", ["a>=1,<2"], []),
        (f"a==1.5 {HASH}", ["a>=2"], ["a>=2: not pinned"]),
        (f"a==1.5 {HASH}", ["A_b"], ["A_b: not pinned"]),
        (f"a-b==1.5 \\\n    {HASH} \\\n    {HASH}", ["A_b"], []),
        ("a==1.5", ["a"], ["a: no hash"]),
        (f"a==1 {HASH}", ["a", 'b; python_version < "3"', 'c; extra == "x"'], []),
        (f"a==1 ; python_version < '3.12' {HASH}\na==2 {HASH}", ["a>=2"], []),
    ],
)
def test_a_disagreement_is_found(text: str, wanted: list[str], found: list[str]) -> None:
    assert faults(pins_of(text), wanted) == found


@pytest.mark.parametrize("text", [f"a>=1 {HASH}", "a==1 --hash=md5:00", "a==1 --hash=sha256:0"])
def test_a_line_that_pins_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a"):
        pins_of(text)
