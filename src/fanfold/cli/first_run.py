"""The first small comparison on a machine: interpreted, while a child compiles for the next.

The loop gives the same bytes with and without JIT, and compiling it takes longer than a small
run does. ``python -m fanfold.cli.first_run`` is that child: without arguments it compiles, with
a scenario and a folder it runs the scenario into it and prints the runs as JSON.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from fanfold.errors import ConfigError, ExitCode
from fanfold.kernels.jit import JIT, cache_dir
from fanfold.results.store import Store
from fanfold.run import Run, run_scenario, scheme_names, warm
from fanfold.scenario.scenario import Scenario, read_scenario, save_scenario
from fanfold.topo.nets import build_named_net

MOST = 9_000
"""Packets times ranks times schemes that are interpreted in less time than a compilation."""
SELF = (sys.executable, "-m", "fanfold.cli.first_run")
NICE = 10
NOTICE = "first run here: interpreted, and compiled meanwhile for the next"


def is_fitting(scenario: Scenario) -> bool:
    """Nothing was compiled here yet, and the work is small."""
    work = scenario.workload
    if not JIT or work is None or scenario.fidelity not in ("auto", "packet"):
        return False
    pkts = -(-work.n_bytes // scenario.settings.payload_bytes) * len(scheme_names(scenario))
    if 2 * pkts > MOST or any(cache_dir("sim").rglob("run.run-*.nbc")):
        return False
    n_ranks = build_named_net(scenario.topology, scenario.seed).n_hosts
    if isinstance(work.ranks, int):
        n_ranks = min(n_ranks, work.ranks)
    return pkts * n_ranks * (2 if work.kind.startswith("all") else 1) <= MOST


def interpret(scenario: Scenario, store: Store, *, use_cache: bool) -> list[Run] | None:
    """Runs of a scenario, made without JIT; None where that failed, which JIT then tells.

    Raises:
        ConfigError: a wrong scenario, told at once.
    """
    compile_too(SELF)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        save_scenario(scenario, file)
        done = subprocess.run(  # noqa: S603 - ourselves
            [*SELF, str(file), str(store.folder), str(int(use_cache))],
            env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    if done.returncode == ExitCode.BAD_INPUT:
        raise ConfigError(*json.loads(done.stdout))
    return [Run(*row) for row in json.loads(done.stdout)] if done.returncode == 0 else None


def compile_too(command: tuple[str, ...]) -> None:
    """Let a child compile the loop; it outlives this command."""
    subprocess.Popen(  # noqa: S603 - ourselves
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(args: list[str]) -> None:
    """Compile, or run one scenario."""
    if not args:
        os.nice(NICE)
        for whole in (True, False):
            warm(whole)
        return
    file, folder, use_cache = args
    try:  # files that it names are where the parent, in the same folder, sees them
        scenario = read_scenario(tomllib.loads(Path(file).read_text(encoding="utf-8")))
        runs = run_scenario(scenario, Store(Path(folder)), use_cache=use_cache == "1")
    except ConfigError as error:
        print(json.dumps([error.field, error.got, error.allowed], default=str))
        sys.exit(ExitCode.BAD_INPUT)
    print(json.dumps(runs))


if __name__ == "__main__":
    main(sys.argv[1:])
