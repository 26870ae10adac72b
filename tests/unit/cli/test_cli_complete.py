"""What a shell offers after Tab, by typer's own machinery and once by bash itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.cli.main import run
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine

CASES = {
    "fanfold pu": ["push"],
    "fanfold compare --schemes rin": ["ring"],
    "fanfold compare --schemes unicast,ring,u": [],  # taken
    "fanfold study model-push --schemes unicast,rin": ["unicast,ring"],
    "fanfold compare --workload all_g": ["all_gather"],
    "fanfold gap --topology fat": ["fat-tree"],
    "fanfold topo fat": ["fat-tree"],
    "fanfold study model-push --model llama3-70": ["llama3-70b"],
    "fanfold workload training --model llama3-70": ["llama3-70b"],
    "fanfold study moe": ["moe-dispatch"],
    "fanfold workload moe": ["moe-dispatch"],
    "fanfold trees pim-s": ["pim-sm"],
    "fanfold encodings --encoding rb": ["rbs"],
    "fanfold encodings --placement ra": ["rack"],
    "fanfold push x --lab ": ["other", "rack"],
    "fanfold lab down --name o": ["other"],
    "fanfold lab restart --name rack lea": ["leaf1", "leaf2"],
    "fanfold clean --name ra": ["rack"],
    "fanfold push x --lab rack --to ": ["all", "h1", "h2", "h3"],
    "fanfold push x --lab other --to ": ["all", "h1"],
    "fanfold push x --lab rack --from h1 --to h2,": ["h2,all", "h2,h3", "h2,h0"],
    "fanfold push x --from h1 --config {config} --to h": ["h2", "h3", "h0"],
    "fanfold reduce-bench --lab rack --ranks h1,": ["h1,h2", "h1,h3", "h1,h0"],
    "fanfold bfr --config {config} --node ": ["leaf1", "leaf2", "spine1"],
    "fanfold receive --config {config} --node h": ["h1", "h2", "h3", "h0"],
    # Nothing to offer, and no word of it.
    "fanfold push x --lab none --to ": [],
    "fanfold push x --to ": [],
    "fanfold bfr --config missing.toml --node ": [],
    "fanfold nosuch --x": [],
    "fanfold push 'open --lab ra": [],
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two labs as their folders show them; the fabric file of one."""
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    for name, hosts in (("rack", 3), ("other", 1)):
        folder = tmp_path / "labs" / name
        folder.mkdir(parents=True)
        (folder / "lab.json").write_text("{}")
        save_fabric(leaf_spine(2, 1, hosts, name=name, prefix=0), folder / "fabric.toml")
    return tmp_path / "labs" / "rack" / "fabric.toml"


@pytest.mark.parametrize("line", CASES)
def test_a_shell_gets_what_may_come_next(
    line: str,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = line.format(config=config) if "{" in line else line
    want = CASES[line.replace(str(config), "{config}")]
    monkeypatch.setenv("_FANFOLD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    assert run([]) == 0
    out, err = capsys.readouterr()
    assert (out.split(), err) == (want, "")


def test_bash_completes_by_the_script_that_it_is_given(config: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here; on Debian: apt install bash")
    lines = (
        'eval "$(_FANFOLD_COMPLETE=source_bash fanfold)"',
        "complete -p fanfold",
        "COMP_WORDS=(fanfold push model --lab rack --to h1,h); COMP_CWORD=6",
        '_fanfold_completion fanfold h1,h --to; echo "${COMPREPLY[@]}"',
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = subprocess.run(
        [bash, "--norc", "-ec", "\n".join(lines)],
        env=os.environ | {"PATH": path, "FANFOLD_STATE_DIR": str(config.parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout.splitlines()[-1] == "h1,h2 h1,h3", told.stderr
    assert told.stdout.startswith("complete -o default -F _fanfold_completion fanfold")
