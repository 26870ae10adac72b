"""A push with relays as it goes: who is told to send what, and when nobody is any more."""

from contextlib import nullcontext
from types import SimpleNamespace

import msgspec
import pytest

from fanfold.api import relaying
from fanfold.api.one_push import Order, Watch
from fanfold.api.relay_task import STOP, Line, Task
from fanfold.live.lab import Lab
from fanfold.push.result import PushResult, ReceiverResult
from fanfold.push.source import Wish, build_manifest
from fanfold.topo.relays import Choice, Site

FAR = Site("far", ("h3", "h4", "h5"))


class OneCrew:
    """A crew of nobody, whose answers a test gives while it is waited for."""

    def __init__(self, on_line, on_end) -> None:
        self.on_line, self.on_end = on_line, on_end
        self.started, self.tasks, self.words, self.answers = [], [], [], []

    def start(self, name, command) -> None:
        self.started.append(name)

    def tell(self, name, line) -> None:
        if line == STOP:
            self.words.append(line)
        else:
            self.tasks.append(msgspec.json.decode(line, type=Task))

    def held(self):
        return nullcontext()

    def wait(self, is_over) -> None:
        while not is_over():
            self.answers.pop(0)()

    def say(self, kind, **more) -> None:
        self.on_line("far", msgspec.json.encode(Line(kind, **more)).decode())


def ended(source, states, **more):
    rows = [
        ReceiverResult(name, state, "", 0.5, "" if state == "verified" else "why", split=False)
        for name, state in states.items()
    ]
    numbers = ("m.bin", source, 2, 4, 1, 0.6, 0.4, 80, rows, [], {}, {}, 9, {}, [], [], 0.1)
    return PushResult(*numbers, **more)


@pytest.fixture
def pushed(monkeypatch, tmp_path):
    """Runs a push with a relay: what becomes of the first fan, and the answers behind it."""
    monkeypatch.setattr(relaying, "Crew", OneCrew)
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    (tmp_path / "m.bin").write_bytes(b"1234")
    manifest, reader = build_manifest(tmp_path / "m.bin", 100, 8, wish=Wish())
    reader.close()
    told = []
    watch = Watch()
    watch.warn = told.append

    def run(first, *answers):
        site = SimpleNamespace(lab=Lab("lab"), config=None)
        choice = Choice(FAR, "h3", "best", ("h3", "h4", "h5"))
        order = Order(tmp_path / "m.bin", relay="auto")
        targets = ["h1", "h3", "h4", "h5"]
        made = relaying._Run(site, order, watch, [choice], targets, tmp_path)
        crew = made._crew
        crew.answers = [lambda answer=answer: answer(made, crew) for answer in answers]
        made.begin("h0")
        job = SimpleNamespace(manifest=manifest, run=lambda: first, stop=lambda: None)
        made.began(job)
        return made.whole(job), crew, told

    return run


def result(value):
    raw = msgspec.Raw(msgspec.json.encode(value))
    return lambda run, crew: crew.say("result", result=raw)


GOOD = {"h1": "verified", "h3": "verified"}


def states(whole):
    return {row.id: row.state for row in whole.receivers}


def test_the_relay_sends_its_own_files_and_the_first_manifest(pushed) -> None:
    rest = ended("h3", {"h4": "verified", "h5": "verified"})
    whole, crew, told = pushed(ended("h0", GOOD), result(rest))
    (task,) = crew.tasks
    assert (task.source, task.targets) == ("h3", ["h4", "h5"])
    assert task.path.endswith("labs/lab/hosts/h3")
    assert task.manifest.endswith("manifest")
    assert not task.terms.takes_over
    assert whole.is_complete()
    assert list(states(whole)) == ["h1", "h3", "h4", "h5"]
    assert told == []


def test_a_process_that_ends_is_started_anew_for_the_source(pushed) -> None:
    rest = ended("h0", {"h4": "verified", "h5": "failed"})
    whole, crew, told = pushed(
        ended("h0", GOOD),
        lambda run, crew: crew.on_end("far"),
        result(rest),
        result(ended("h4", {"h5": "failed"})),
    )
    assert crew.started == ["far", "far"]
    assert [task.source for task in crew.tasks] == ["h3", "h0", "h4"]
    assert crew.tasks[1].manifest == ""
    assert crew.tasks[1].terms.takes_over
    assert told[0] == "far: h4, h5 get it from h0, not from h3"
    assert states(whole)["h5"] == "failed"
    errors = [one.error for one in whole.relays[0].passes]
    assert errors == ["the process that sent for it ended", "h5: why", "h5: why"]


def test_what_a_process_refuses_is_said_of_its_receivers(pushed) -> None:
    refuse = lambda run, crew: crew.say("error", text="no such file")  # noqa: E731
    whole, crew, _ = pushed(ended("h0", GOOD), refuse, refuse)
    assert [task.source for task in crew.tasks] == ["h3", "h0"]
    assert [r.error for r in whole.receivers[2:]] == ["no such file"] * 2


def test_nothing_is_begun_beside_a_newer_push_of_the_name(pushed) -> None:
    lost = ended("h0", {"h1": "failed", "h3": "failed"}, taken_over_by="h9")
    whole, crew, _ = pushed(lost)
    assert crew.tasks == []
    assert whole.taken_over_by == "h9"
    later = ended("h3", {"h4": "failed", "h5": "failed"}, taken_over_by="h9")
    whole, crew, _ = pushed(ended("h0", GOOD), result(later))
    assert [task.source for task in crew.tasks] == ["h3"]
    assert whole.is_taken_over


def test_a_stop_reaches_who_sends_and_ends_it(pushed) -> None:
    part = ended("h3", {"h4": "verified", "h5": "failed"})
    whole, crew, _ = pushed(ended("h0", GOOD), lambda run, crew: run.stop(), result(part))
    assert crew.words == [STOP]
    assert [task.source for task in crew.tasks] == ["h3"]
    assert whole.is_interrupted
    assert states(whole) == GOOD | {"h4": "verified", "h5": "failed"}
