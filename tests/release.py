"""`make release KEY=...`: the wheel of this commit, what runs with it, and their signed hashes.

    python tests/release.py --key KEY [--out build/release] [--with FILE ...]

The wheel is built twice from what is committed, and must be the same bytes both times. Their
SHA-256 stand in SHA256SUMS, whose signature is that of an SSH key (ssh-keygen -Y, namespace
fanfold-release). Who has a list of signers checks both:

    ssh-keygen -Y verify -f SIGNERS -I WHO -n fanfold-release -s SHA256SUMS.sig < SHA256SUMS
    sha256sum --check SHA256SUMS
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPACE = "fanfold-release"
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """No release was made; the text says why, in one line."""


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0: made, 1: a step failed, 2: what was asked for cannot be, 3: a tool lacks."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--key", type=Path, required=True, help="private SSH key that signs")
    parser.add_argument("--out", type=Path, default=ROOT / "build/release")
    parser.add_argument("--with", dest="more", type=Path, nargs="*", default=[])
    args = parser.parse_args(words)
    lacking = [tool for tool in ("git", "ssh-keygen") if shutil.which(tool) is None]
    try:
        if lacking:
            return told(f"no {lacking[0]} here; on Debian: apt install git openssh-client", 3)
        for path in (args.key, *args.more):
            if not path.is_file():
                return told(f"{path}: got no file, allowed: one that is there", 2)
        if run("git", "status", "--porcelain"):
            return told(
                "got files that are not committed, allowed: a commit and nothing else", 2
            )
        release(args.key, args.out, args.more)
    except ReleaseError as error:
        return told(str(error), 1)
    return 0


def release(key: Path, out: Path, more: Sequence[Path]) -> None:
    """Fill an empty folder.

    Raises:
        ReleaseError: a step failed, or two builds differ.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    first, second = build(), build()
    if first != second:
        raise ReleaseError("two builds of one commit are not the same bytes")
    for name, octets in first.items():
        (out / name).write_bytes(octets)
    for path in more:
        shutil.copy(path, out / path.name)
    files = sorted(path for path in out.iterdir())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    ]
    (out / SUMS).write_text("".join(lines))
    run("ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", SPACE, str(out / SUMS))
    for path in sorted(out.iterdir()):
        print(path)


def build() -> dict[str, bytes]:
    """The wheel of what is committed, by its name; times in it are the commit's."""
    env = os.environ | {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
    with tempfile.TemporaryDirectory(prefix="fanfold-release-") as folder:
        archive, tree, made = (Path(folder) / name for name in ("tree.tar", "tree", "made"))
        tree.mkdir()
        run("git", "archive", "-o", str(archive), "HEAD")
        shutil.unpack_archive(archive, tree, filter="data")
        words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(made)]
        run(sys.executable, "-m", "pip", *words, str(tree), env=env)
        return {path.name: path.read_bytes() for path in made.iterdir()}


def run(*words: str, env: dict[str, str] | None = None) -> str:
    """Standard output of a command.

    Raises:
        ReleaseError: it failed; the last line that it said.
    """
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise ReleaseError(f"{Path(words[0]).name} ended with {done.returncode}: {said[0]}")
    return done.stdout


def told(text: str, code: int) -> int:
    """Say it, and this exit code."""
    print(f"release: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
