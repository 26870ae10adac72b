"""Who follows an agent's words: what is told, what silence means, when it changes."""

from fractions import Fraction

import pytest

from fanfold.live import plane_watch
from fanfold.live.lab import Lab
from fanfold.live.plane_watch import PlaneWatch, paths_of

EVEN = {"h1": {"0": "8", "1": "8"}, "h2": {"0": "8", "1": "8"}}


class Agent:
    """Answers in place of the process; what it was asked."""

    def __init__(self) -> None:
        self.says: dict[str, object] = {"paths": EVEN}
        self.asked: list[object] = []

    def ask_all(self, calls, patience_s):
        self.asked.append(calls[""].request)
        return {"": self.says}


@pytest.fixture
def agent(monkeypatch):
    made = Agent()
    monkeypatch.setattr(plane_watch, "ask_all", made.ask_all)
    monkeypatch.setattr(plane_watch, "ASK_S", 30.0)
    return made


@pytest.fixture
def watch(agent):
    made = PlaneWatch(Lab("lab"), "h0", ["h1", "h2"], [0, 1])
    yield made
    made.close()


def test_weights_are_known_at_once_and_stay_one_object_until_they_change(agent, watch) -> None:
    first = watch.latest
    assert first == {0: 1, 1: 1}
    assert agent.asked == [{"do": "paths", "host": "h0"}]
    watch._look()
    assert watch.latest is first
    agent.says = {"paths": EVEN | {"h2": {"0": "8", "1": "4"}, "h9": {"0": "1"}}}
    watch._look()
    assert watch.latest == {0: 2, 1: 1}


@pytest.mark.parametrize(
    "says",
    [
        {"error": "no answer: refused"},
        {"paths": {}},
        {"paths": {"h1": {"0": "8"}, "h2": {"1": "8"}}},
    ],
    ids=["the agent is gone", "its speaker is silent", "no plane leads to both"],
)
def test_what_tells_nothing_of_planes_changes_nothing(agent, watch, says) -> None:
    known = watch.latest
    agent.says = says
    watch._look()
    assert watch.latest is known


def test_without_an_agent_nothing_is_known(agent) -> None:
    agent.says = {"error": "no answer"}
    made = PlaneWatch(Lab("lab"), "h0", ["h1"], [0, 1])
    made.close()
    assert made.latest is None


def test_paths_are_exact_and_nobody_said_is_kept() -> None:
    told = paths_of({"paths": {"h1": {"0": "1000000000", "3": None, "1": "1/3"}}})
    assert told == {"h1": {0: Fraction(10**9), 3: None, 1: Fraction(1, 3)}}
    assert paths_of({"error": "gone"}) == {}
