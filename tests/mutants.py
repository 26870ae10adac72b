"""Mutate sources one operator at a time, and list what no test notices: `make mutants`.

    python tests/mutants.py [FILE ...] [--jobs N]

cosmic-ray makes the mutants; each is tried in a copy of the tree by a fork, as planted faults
are (style/plants.py), with the tests that RANGE names for its file. Without a FILE the rows of
DEFAULT are worked through, some minutes on two cores. A survivor is a line to look at: a test
that lacks, or a mutant that means the same.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "style"))

from plants import LOADED, Bed, copy_tree  # noqa: E402 - found by the line above

CODECS = (
    *("tests/unit/wire/test_wire_vectors.py", "tests/unit/wire/test_wire_headers.py"),
    "tests/property/test_codec_laws.py",
)
WIRE = ("ask", "close", "fan", "feedback", "fold", "hello", "notice", "report")
RANGE: dict[str, tuple[str, ...]] = {
    **{f"src/fanfold/wire/{name}.py": (*CODECS, "-k", name) for name in WIRE},
    "src/fanfold/wire/bier.py": CODECS,
    "src/fanfold/wire/bier_mpls.py": CODECS,
    "src/fanfold/wire/bitstring.py": (*CODECS, "tests/unit/wire/test_wire_bitstring.py"),
    "src/fanfold/wire/handshake.py": CODECS,
    "src/fanfold/wire/inner.py": CODECS,
    "src/fanfold/wire/width.py": CODECS,
    "src/fanfold/core/pace.py": (
        *("tests/unit/core/test_pace_steps.py", "tests/property/test_sender_pace.py"),
        *("tests/unit/core", "tests/property/test_sender_machine.py"),
    ),
    "src/fanfold/core/gap_book.py": ("tests/unit/core/test_gap_book.py",),
    "src/fanfold/core/limit.py": ("tests/unit/core/test_limit.py", "tests/unit/core"),
    "src/fanfold/group/rules.py": ("tests/unit/group/test_rules.py",),
    "src/fanfold/topo/vat_rules.py": ("tests/unit/topo/test_vat_rules.py", "tests/unit/topo"),
    "tests/naive.py": ("tests/property/test_kernels.py", "tests/unit/kernels"),
}
"""Tests by the file that they are to guard, those that say most first."""
DEFAULT = tuple(f"src/fanfold/wire/{name}.py" for name in WIRE)
OPERATORS = tuple(
    f"core/{name}"
    for name in (
        *("AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
        *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ZeroIterationForLoop"),
        *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
        *(
            f"ReplaceBinaryOperator_{pair}"
            for pair in (
                *("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Mod_FloorDiv"),
                *("BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitOr"),
                *("LShift_RShift", "RShift_LShift"),
            )
        ),
        *(
            f"ReplaceComparisonOperator_{pair}"
            for pair in (
                *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq"),
                *("Is_IsNot", "IsNot_Is"),
            )
        ),
    )
)
"""One mutant for each operator of a line: all of cosmic-ray's would be ten times as many."""
LONGEST_S = 60


class Mutant(NamedTuple):
    """A file with one operator changed."""

    file: str
    operator: str
    text: str

    def change(self, sound: str) -> tuple[int, str, str]:
        """The line where it differs: its number, what stood there and what stands there."""
        pairs = zip(sound.splitlines(), self.text.splitlines(), strict=False)
        number, (was, now) = next((n, p) for n, p in enumerate(pairs, 1) if p[0] != p[1])
        return number, was.strip(), now.strip()


def mutants_of(file: str) -> Iterator[Mutant]:
    """Each mutant of a file, once."""
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415 - only `make mutants` has it
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415 - as above

    sound = (ROOT / file).read_text(encoding="utf-8")
    seen = {sound}
    for name in OPERATORS:
        occurrence = 0
        while (text := mutate_code(sound, get_operator(name)(), occurrence)) is not None:
            occurrence += 1
            mutant = Mutant(file, name, text)
            if text not in seen and not mutant.change(sound)[1].startswith("class "):
                yield mutant  # how a class is kept is no behaviour
            seen.add(text)


def survives(mutant: Mutant, bed: Bed) -> bool:
    """No test turns red."""
    path = bed.tree / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.text, encoding="utf-8")
    try:
        code, _ = bed.pytest("-x", *RANGE[mutant.file], timeout_s=LONGEST_S)
    finally:
        path.write_text(sound, encoding="utf-8")
    return code == 0


def try_all(mutants: list[Mutant], beds: list[Bed]) -> Iterator[tuple[Mutant, bool]]:
    """Each with whether it survives, as many at once as there are beds."""
    free: SimpleQueue[Bed] = SimpleQueue()
    for bed in beds:
        free.put(bed)

    def tried(mutant: Mutant) -> bool:
        bed = free.get()
        try:
            return survives(mutant, bed)
        finally:
            free.put(bed)

    with ThreadPoolExecutor(len(beds)) as pool:
        yield from zip(mutants, pool.map(tried, mutants), strict=True)


def main() -> int:
    """List survivors; 1 where there are some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(RANGE)}")
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree at once")
    options = parser.parse_args()
    files = options.files or list(DEFAULT)
    for file in files:
        if file not in RANGE:
            parser.error(f"{file}: has no tests in RANGE; allowed: {', '.join(RANGE)}")
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    for name in LOADED:
        import_module(name)
    n_all = n_alive = 0
    with tempfile.TemporaryDirectory(prefix="fanfold-mutants-") as folder:
        trees = [Path(folder, f"tree{i}") for i in range(max(options.jobs, 1))]
        for tree in trees:
            copy_tree(tree)
        beds = [Bed(tree, LONGEST_S) for tree in trees]
        for file in files:
            code, said = beds[0].pytest("-x", *RANGE[file], timeout_s=10 * LONGEST_S)
            if code:
                print(f"{file}: its tests fail without a mutant\n{said[-2000:]}")
                return 1
            sound = (ROOT / file).read_text(encoding="utf-8")
            tried = list(try_all(list(mutants_of(file)), beds))
            alive = [mutant for mutant, is_alive in tried if is_alive]
            for mutant in alive:
                number, was, now = mutant.change(sound)
                print(f"alive  {file}:{number}  {was}  ->  {now}", flush=True)
            print(f"{file}: {len(tried) - len(alive)} of {len(tried)} killed", flush=True)
            n_all, n_alive = n_all + len(tried), n_alive + len(alive)
    print(f"{n_all - n_alive} of {n_all} mutants killed")
    return int(n_alive > 0)


if __name__ == "__main__":
    raise SystemExit(main())
