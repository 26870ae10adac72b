"""What programs call: examples of docstrings, results as the command prints them, errors."""

import doctest
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import fanfold
from fanfold.api import pushing
from fanfold.api.site import Site
from fanfold.cli.main import run
from fanfold.live.lab import Lab
from fanfold.push.result import PushResult, ReceiverResult
from fanfold.topo.fabric_file import save_fabric
from fanfold.topo.lab_fabric import leaf_spine

SMALL = {"topology": "star:hosts=3", "workload": "broadcast:9kB", "schemes": "ring,fanfold"}
FED = {"at_source": 0, "unfolded_equivalent": 0, "packets": 0, "bytes": 0}
OF_A_RUN = ("is_cached", "wall_ps", "hops_per_s")
EXAMPLES = ("api.comparing", "api.lab_context", "api.pushing", "api.values")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path / "state"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstrings_are_true(name: str) -> None:
    module = import_module(f"fanfold.{name}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module, extraglobs={"fanfold": fanfold})
    examples = [test for test in found if test.examples]
    assert examples
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in examples:
        runner.run(test)
    assert runner.summarize().failed == 0


def test_all_that_is_offered_is_there_and_nothing_else() -> None:
    assert set(fanfold.__all__) == set(dir(fanfold))
    for name in fanfold.__all__:
        assert getattr(fanfold, name) is not None
    assert callable(fanfold.push)
    assert callable(fanfold.study)
    with pytest.raises(AttributeError, match="no attribute 'pull'"):
        _ = fanfold.pull  # type: ignore[attr-defined]


def test_a_comparison_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    made = fanfold.as_json(fanfold.compare(**SMALL, use_cache=False))
    words = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    assert run(["compare", *words, "--no-cache", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for row in (*made["runs"], *printed["runs"]):
        for key in OF_A_RUN:
            del row[key]
    assert made == printed
    assert [row["scheme"] for row in made["runs"]] == ["fanfold", "ring"]


def test_a_study_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = {"size": ["20kB"]}
    given = {"gpus": 4, "topology": "star:hosts=4", "schemes": ("ring", "fanfold")}
    made = fanfold.study("model-push", **given, sweep=sweep, jobs=1)  # type: ignore[arg-type]
    flags = ["--gpus", "4", "--topology", "star:hosts=4", "--sweep", "size=20kB"]
    assert run(["study", "model-push", *flags, "--schemes", "ring,fanfold", "--json"]) == 0
    assert fanfold.as_json(made) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fanfold.compare(**SMALL | {"schemes": ["rign"]}), "schemes: got 'rign'"),
        (lambda: fanfold.compare(**SMALL, gpus=9), "gpus: got 9, allowed: 2..3"),
        (lambda: fanfold.compare(topology="star:hosts=3"), "workload: got 'nothing'"),
        (lambda: fanfold.compare("no.toml", seed=3), "seed: got 3, allowed: no such flag"),
        (lambda: fanfold.push("x", lab="a/b"), "lab: got 'a/b'"),
        (lambda: fanfold.push("x", config="{config}", to=["h1", "h9"]), "to: got 'h9'"),
        (lambda: fanfold.push("x", config="{config}", source="h9"), "source: got 'h9'"),
        (lambda: fanfold.push("x", config="{config}", rate="fast"), "rate: got 'fast'"),
        (lambda: fanfold.push("x", config="{config}", patience="x"), "patience: got 'x'"),
    ],
)
def test_what_is_refused_is_called_as_the_argument_is(
    call: Callable[[], Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_fabric(leaf_spine(1, 0, 2, name="cold", prefix=0), tmp_path / "{config}")
    with pytest.raises(fanfold.ConfigError) as raised:
        call()
    assert str(raised.value).startswith(said)


def result_of(state: str) -> PushResult:
    receivers = [ReceiverResult("h1", state, "", 0.0, "", False)]
    rest = (FED, FED, 0, {}, [], [], 0.1)
    return PushResult("x", "h0", 2, 1, 1, 3.0, 0.5, 16, receivers, [], *rest)


def test_a_push_that_is_not_whole_is_an_error_that_has_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "a.toml"
    save_fabric(leaf_spine(1, 0, 2, name="cold", prefix=0), config)
    heard: list[tuple[str, int, int]] = []

    def push(site: Site, order: pushing.Order, watch: pushing.Watch) -> PushResult:
        assert (site.config, order.to, order.wish.as_name) == (config, "h1,h2", "y")
        watch.progress("h1", 1, 2)
        return result_of(order.source)

    monkeypatch.setattr(pushing, "run_push", push)
    given: dict[str, Any] = {"to": ["h1", "h2"], "config": str(config), "name": "y"}
    told = lambda *words: heard.append(words)  # noqa: E731
    assert fanfold.push("x", **given, source="verified", on_progress=told).name == "x"
    with pytest.raises(fanfold.PushFailed) as raised:
        fanfold.push("x", **given, source="failed")
    assert raised.value.result == result_of("failed")
    assert isinstance(raised.value, fanfold.CheckFailed)
    assert heard == [("h1", 1, 2)]


def test_a_watch_that_nobody_needs_hears_nothing() -> None:
    watch = pushing.QUIET
    watch.warming("x")
    watch.began(None)  # type: ignore[arg-type]
    watch.progress("h1", 1, 2)
    watch.silent("h1", 1.0)
    watch.warn("x")


def test_a_lab_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    for given, said in (
        ({"name": "a/b"}, "name: got 'a/b'"),
        ({"config": tmp_path / "none.toml"}, f"{tmp_path / 'none.toml'}: got 'No such"),
        ({"mtu": 9}, "mtu: got 9, allowed: 576.."),
    ):
        with pytest.raises(fanfold.ConfigError) as raised, fanfold.lab(**given):  # type: ignore[arg-type]
            pass
        assert str(raised.value).startswith(said), raised.value
    homes = Lab("x").folder.parent
    assert list(homes.glob("*/lab.json")) == []
