"""What README.md and its pages tell a reader to type is typed, and prints what is shown.

The dear ones run where FANFOLD_README is set: ``make readme``.
"""

import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from live_site import Site, finish
from readme_lines import blocks_of, commands_of, lacking, shape
from safetensors.numpy import save_file

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/pushing.md", "docs/comparing.md", "docs/commands.md")
TEXTS = {page: (ROOT / page).read_text() for page in PAGES}
README = "\n".join(TEXTS.values())
BLOCKS = blocks_of(README)
TORCH = ("lab up --hosts 4", "torchrun")
"""Of PyTorch: test_torch_live.py runs the example, with other flags."""
PARTS = ("compare --topology fat-tree:k=4 --workload chakra:FOLDER",)
"""Not whole: FOLDER is the reader's own."""
DEAR = (
    "compare --topology fat-tree:k=16",
    "compare --topology fat-tree:k=8 --workload all_reduce",
    "study ",
    "report ",
    "gap",
    "sim-bench",
    "demo",
)
KEYS = ("keys ", "lab up --keys", "lab up --link-keys")
OF_PLANES = ("lab up --topology superpod",)
OF_RELAYS = ("lab up --topology wan", "lab fail slow")
OF_TENANTS = ("lab up --tenant",)
OF_LABELS = ("lab up --config labelled.toml",)
IN_ORDER = ("lab up --leaves", "push ", "lab status", "lab down")
INIT = ("fabric init",)
BY_OPERATOR = ("fabric reroute ", "top --config rack.toml --operator")
"""test_live_fabric_init.py runs them."""
BY_HAND = ("bfr ", "receive --config", "push model.safetensors --config")
CHEAP = ("compare --topology fat-tree:k=8", "compare examples/", "explain ", "workload ")


def block_with(words: str, page: str) -> list[str]:
    blocks = blocks_of(TEXTS[page])
    (found,) = [b.commands for b in blocks if any(words in line for line in b.commands)]
    return found


def printed_with(words: str) -> list[str]:
    (found,) = [b.printed for b in BLOCKS if any(words in line for line in b.printed)]
    return found


def is_one_of(command: str, kinds: tuple[str, ...]) -> bool:
    return command.removeprefix("fanfold ").startswith(kinds)


def few(kinds: tuple[str, ...]) -> list[str]:
    return [c for c in dict.fromkeys(commands_of(README)) if is_one_of(c, kinds)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the commands name; they run in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for file in (tmp_path / "model.safetensors", tmp_path / "checkpoints" / "one.safetensors"):
        file.parent.mkdir(exist_ok=True)
        save_file({"w": np.random.default_rng(len(file.name)).random(100_000)}, file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(site: Site, command: str, timeout_s: float = 120.0) -> str:
    """What a command prints that must succeed."""
    done = site.run(*shlex.split(command)[1:], timeout_s=timeout_s)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_every_command_is_run_somewhere() -> None:
    kinds = (
        *TORCH,
        *PARTS,
        *DEAR,
        *KEYS,
        *OF_PLANES,
        *OF_RELAYS,
        *OF_TENANTS,
        *OF_LABELS,
        *IN_ORDER,
        *INIT,
        *BY_OPERATOR,
        *BY_HAND,
        *CHEAP,
    )
    found = commands_of(README)
    assert len(found) > 25
    assert [c for c in found if "torchrun" not in c and not is_one_of(c, kinds)] == []
    assert [kind for kind in kinds if not any(kind in c for c in found)] == []


def test_the_lab_of_the_readme(site: Site, here: Path) -> None:
    commands = block_with("push checkpoints --as", "docs/pushing.md")
    assert {len([c for c in commands if is_one_of(c, (k,))]) > 0 for k in IN_ORDER} == {True}
    try:
        for command in commands:
            typed(site, command)
            if command == "fanfold push checkpoints --as run7/step100":
                there = site.state / "labs/lab/hosts/h8/run7/step100/one.safetensors"
                assert there.read_bytes() == (here / "checkpoints/one.safetensors").read_bytes()
    finally:
        site.run("lab", "down", "--purge")
    assert (here / "lossy.pcapng").stat().st_size > 10_000


def test_planes_of_the_page(site: Site, here: Path) -> None:
    try:
        told = [typed(site, c) for c in block_with(OF_PLANES[0], "docs/pushing.md")]
    finally:
        site.run("lab", "down", "--purge")
    assert "plane" in told[-1]


def test_relays_of_the_page(site: Site, here: Path) -> None:
    """Half the rate of one host's link moves the choice; the line carries one copy."""
    try:
        told = [typed(site, c) for c in block_with(OF_RELAYS[0], "docs/pushing.md")]
    finally:
        site.run("lab", "down", "--purge")
    for text, relay in ((told[1], "h4"), (told[3], "h5")):
        assert "verified at 7 of 7 receivers" in text
        (line,) = (x.split() for x in text.splitlines() if x.split()[:1] == ["rack1"])
        assert (line[1], line[-7]) == (relay, relay), line
    (data,) = (x.split() for x in told[1].splitlines() if "border0 > border1" in x)
    assert data[3] == data[4], data  # packets of one copy, as predicted


def test_tenants_of_the_page(site: Site, here: Path) -> None:
    try:
        told = [typed(site, c) for c in block_with(OF_TENANTS[0], "docs/pushing.md")]
    finally:
        site.run("lab", "down", "--purge")
    assert "verified at 2 of 2 receivers" in told[1]
    assert "tenant blue: slots" in told[2]


def test_keys_of_the_page(site: Site, here: Path) -> None:
    public: dict[str, str] = {}
    for command in block_with("fanfold keys init --node h0", "docs/pushing.md"):
        words = command.split()
        if words[1:3] == ["keys", "init"]:
            public[words[-1]] = typed(site, command).split()[0]
        elif words[1:3] == ["keys", "trust"]:
            typed(site, command.replace("ff1:...", public[words[3]]))
    assert len(set(public.values())) == 2
    try:
        typed(site, "fanfold lab up --keys")
    finally:
        site.run("lab", "down", "--purge")
        shutil.rmtree(site.state / "keys")  # other pushes of this site have none


def test_labels_and_receipts_of_the_page(site: Site, here: Path) -> None:
    text = re.sub(
        r'(role = "\w+")', r'\1\nlabels = { region = "eu" }', toml_of("docs/pushing.md")
    )
    text = text.replace('"10.0.0.', f'"127.93.{1 + os.getpid() % 250}.')
    (here / "rack.toml").write_text(text)
    (here / "labelled.toml").write_text(text)
    public = ""
    try:
        for command in block_with("fanfold keys label", "docs/pushing.md"):
            said = typed(site, command.replace("ff1:...", public))
            public = public or said.split()[0]
        for command in block_with(OF_LABELS[0], "docs/pushing.md"):
            said = typed(site, command)
            if "lab up" in command:
                shutil.copy(site.state / "labs/lab/keys/trusted.toml", here / "trusted.toml")
            elif "verify-receipt" in command:
                assert "h1 (region=eu) has 'model.safetensors', " in said
    finally:
        site.run("lab", "down", "--purge")
        shutil.rmtree(site.state / "keys")


def toml_of(page: str) -> str:
    (text,) = re.findall(r"```toml\n(.*?)```", TEXTS[page], re.DOTALL)
    return str(text)


def test_keys_of_links_of_the_page(site: Site, here: Path) -> None:
    (here / "rack.toml").write_text(toml_of("docs/pushing.md"))
    try:
        for command in block_with("fanfold keys links", "docs/pushing.md"):
            if not is_one_of(command, BY_HAND):
                typed(site, command)
        assert 'link_keys = "required"' in (here / "rack-keyed.toml").read_text()
        assert (here / "secret" / "leaf1").is_dir()
    finally:
        site.run("lab", "down", "--purge")


@pytest.mark.parametrize("page", ["README.md", "docs/pushing.md", "by hand"])
def test_several_machines_of_a_page_as_addresses_of_this_one(
    site: Site, here: Path, page: str
) -> None:
    base = f"127.92.{1 + os.getpid() % 250}."
    if page == "by hand":
        text = toml_of("docs/pushing.md")
        (here / "rack.toml").write_text(text.replace('"10.0.0.', f'"{base}'))
        *nodes, push = block_with("fanfold bfr --config rack.toml", "docs/pushing.md")
    else:
        init, *nodes, push = block_with("fanfold fabric init rack", page)
        typed(site, init.replace("10.0.0.", base))
        for name in ("h0", "h1", "leaf1"):  # to its machine
            shutil.copytree(here / "rack" / name, here / name)
    runs = [site.start(*shlex.split(command)[1:]) for command in nodes]
    try:
        for run in runs:
            assert run.stdout is not None
            assert run.stdout.readline()
        said = typed(site, push)
    finally:
        for run in runs:
            run.terminate()
        ended = [finish(run, 20) for run in runs]
    assert [code for code, _, _ in ended] == [0] * len(runs)
    assert "verified at 1 of 1 receivers" in said
    came = here / "incoming" / "model.safetensors"
    assert came.read_bytes() == (here / "model.safetensors").read_bytes()


def test_the_program_of_the_readme_prints_what_came(
    site: Site, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del here
    (program,) = re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    monkeypatch.setenv("FANFOLD_STATE_DIR", site.env["FANFOLD_STATE_DIR"])
    exec(program, {})
    assert capsys.readouterr().out.endswith(f" {['verified'] * 4}\n")


def test_the_first_comparison_prints_what_is_shown_and_explain_follows_it(
    site: Site, here: Path
) -> None:
    del here
    compare, explain = few(("compare --topology fat-tree:k=8",))[0], few(("explain ",))[0]
    said = typed(site, compare)
    assert lacking(printed_with("last receiver"), said) == []
    (own,) = re.findall(r"\b[0-9a-f]{16}\b", said.partition("unicast")[0])
    words = shlex.split(explain)
    told = site.run(*(own if word == "RUN" else word for word in words[1:]))
    assert told.returncode == 0, told.stderr
    assert f"run {own}, fanfold" in told.stdout


@pytest.mark.parametrize("command", few(("compare examples/", "workload ")))
def test_a_cheap_command_of_the_readme(site: Site, here: Path, command: str) -> None:
    del here
    assert typed(site, command)


def test_what_the_demo_prints_is_what_is_shown(site: Site, here: Path) -> None:
    shown = printed_with("13 nodes up")
    said = site.run("demo", here / "model.safetensors")
    assert said.returncode == 0, said.stderr
    both = re.sub(r"pushing \S*/", "pushing ", said.stderr) + said.stdout
    if "nodes up" not in both:  # said only where it takes long
        shown = shown[1:]
    assert lacking(shown, both) == []


@pytest.mark.skipif(
    not os.environ.get("FANFOLD_README"), reason="minutes each; `make readme` runs them"
)
@pytest.mark.parametrize("command", [c for c in few(DEAR) if c != "fanfold demo"])
def test_a_dear_command_of_the_readme(site: Site, here: Path, command: str) -> None:
    del here
    if command == "fanfold report --last":
        typed(site, few(("compare examples/",))[0])
    assert typed(site, command, 450.0)


def test_a_line_that_is_not_printed_any_more_is_found() -> None:
    shown, other = ["a  12 ms", "...", "run 4aabe4738ed065f7"], "run 0aabe4738ed065f0\n"
    assert lacking(shown, f"a 3.5 us\nmore\n{other}") == []
    assert lacking(shown, f"{other}a 3 us\n") == shown[2:]
    assert lacking(shown, f"b 3 us\n{other}")[0] == shown[0]
    assert shape("─────  h0 > leaf1  11,269") == "─ hN > leafN N"
