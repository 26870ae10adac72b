"""Seeds at their limits, output that nobody reads, Ctrl-C before all is imported."""

import subprocess
import sys

import pytest

from fanfold.cli import entry
from fanfold.cli.main import run

SEEDED = (
    ["topo", "ring:hosts=4"],
    ["encodings"],
    ["trees"],
    ["vat", "--topology", "ring:hosts=4"],
    ["workload"],
    ["compare", "--topology", "ring:hosts=4", "--workload", "broadcast:1kB"],
    ["gap"],
    ["study", "allreduce"],
    ["sim-bench"],
    ["push", "file"],
)


@pytest.mark.parametrize("seed", [-1, 1 << 63])
@pytest.mark.parametrize("verb", SEEDED, ids=lambda verb: verb[0])
def test_a_seed_that_no_column_holds_is_refused(
    verb: list[str], seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*verb, f"--seed={seed}"]) == 2
    said = capsys.readouterr().err
    assert said.split() == f"error: --seed: got {seed}, allowed: 0..{(1 << 63) - 1}".split()


@pytest.mark.parametrize("seed", [0, (1 << 63) - 1])
def test_seeds_at_the_limits_work(seed: int) -> None:
    assert run(["topo", "ring:hosts=4", f"--seed={seed}"]) == 0
    assert (
        run(["encodings", "--topology", "ring:hosts=4", "--members", "3", f"--seed={seed}"])
        == 0
    )


@pytest.mark.parametrize("args", [("--help",), ("topo", "ring:hosts=4"), ("topo", "--json")])
def test_output_that_nobody_reads_ends_as_a_closed_pipe(args: tuple[str, ...]) -> None:
    whole = [sys.executable, "-m", "fanfold", *args]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as verb:
        assert verb.stdout is not None
        assert verb.stderr is not None
        verb.stdout.close()
        said = verb.stderr.read()
        assert (verb.wait(60), said) == (141, b"")


def test_ctrl_c_in_the_midst_of_imports_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped:
        @staticmethod
        def find_spec(name: str, path: object, target: object = None) -> None:
            if name == "fanfold.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "fanfold.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Stopped, *sys.meta_path])
    monkeypatch.setattr(entry.signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "error: interrupted\n"


SIGNALLED = """
import os, signal, sys
from fanfold.cli import entry, main

def run(*, ready):
    class Stopping:  # whoever meets an exception here tells it and goes on
        def __del__(self):
            if sys.argv[1] == "import":
                os.kill(os.getpid(), signal.SIGINT)
    Stopping()
    ready()
    try:
        if sys.argv[1] == "command":
            os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return 7
    return 0

main.run = run
entry.main()
"""


@pytest.mark.parametrize(("when", "code"), [("import", 130), ("command", 7), ("never", 0)])
def test_ctrl_c_is_the_command_s_own_matter_only_while_it_runs(when: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, when], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "error: interrupted\n" * (code == 130))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpus", "0"], "--gpus: got 0"),
        (["--gpus", "16", "--topology", "x"], "--topology: got 'x'"),
        (["--gpus", "16", "--loss", "nan"], "--loss: got 'nan'"),
        (["--sweep", "gpus=0"], "gpus: got 0"),
        (["--gpus", "16", "--watts", "1000001"], "--watts"),
    ],
)
def test_a_study_names_what_is_wrong_as_it_was_given(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["study", "allreduce", *flags]) == 2
    assert f" {said}" in capsys.readouterr().err.replace("'--watts'", "--watts")
