"""`make hostile-actors`: each actor of docs/threats.md alone against a lab with keys.

`make hostile-actors OPEN=1`, here `--open`: against one without, which each is to do to what
that page says and no more (tests/live/open_actors.py).

FANFOLD_ACTORS           which, by commas; those joined by + at once; all if not set, one after
                         the other: tests/live/hostile_actors.py
FANFOLD_ACTOR_SECONDS    how long each, 600 if not set
FANFOLD_HOSTILE_SEED     of what is sent, 1 if not set
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main() -> int:
    """One actor after the other, a lab for each."""
    sys.path[:0] = [str(TESTS / "live"), str(TESTS)]
    from hostile_actors import ACTORS  # noqa: PLC0415 - on a path that is known now

    is_open = sys.argv[1:] == ["--open"]
    seconds = float(os.environ.get("FANFOLD_ACTOR_SECONDS", "600"))
    seed = int(os.environ.get("FANFOLD_HOSTILE_SEED", "1"))
    chosen = os.environ.get("FANFOLD_ACTORS", ",".join(ACTORS)).split(",")
    for actor in chosen:
        run_one(actor, seconds, seed, is_open=is_open)
    print("hostile actors: every law held")
    return 0


def run_one(actor: str, seconds: float, seed: int, *, is_open: bool) -> None:
    """A lab of its own, and the actor on it."""
    from hostile_actors import LAB, ActorRun  # noqa: PLC0415 - as above
    from hostile_run import FLAGS  # noqa: PLC0415 - as above
    from live_site import LiveLab, Site  # noqa: PLC0415 - as above
    from open_actors import OpenRun  # noqa: PLC0415 - as above

    state = Path(tempfile.mkdtemp(prefix="fanfold-"))
    os.environ["FANFOLD_STATE_DIR"] = str(state)  # where ranks find their hosts' keys
    site = Site(state)
    mode, lab_flags, kind = ("open", (), OpenRun) if is_open else ("keys", LAB, ActorRun)
    print(f"{actor}, {mode}: {seconds:.0f} s, seed {seed}", flush=True)
    try:
        lab = LiveLab(site, "hostile", *FLAGS, *lab_flags)
        run = kind(lab, state, seed, actor)
        seen = run.run(seconds)
        lab.down()
    finally:
        site.end_all()
        shutil.rmtree(state, ignore_errors=True)
    for what, n in sorted(seen.items()):
        print(f"  {what}: {n}")
    print(f"  slowest push, its command's start counted: {run.slowest_s:.1f} s", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
