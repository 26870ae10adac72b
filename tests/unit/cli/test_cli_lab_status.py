"""What `fanfold lab status` shows on a terminal."""

import pytest

from fanfold.cli.lab import show


def test_arrays_that_found_no_slot_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arrays = {"armed": 2, "absorbed": 9, "complete": 5, "passed": 4, "full": 3, "quota": 1}
    status = {"links": {"h1": {"tx": {"fold": [7, 99]}, "rx": {}}}, "arrays": arrays}
    nodes = {"leaf1": {"pid": 1, "alive": True, "status": status}, "h1": {"pid": 2, "alive": 0}}
    show({"lab": "x", "up": True, "log": "/labs/x/lab.log", "nodes": nodes})
    said = capsys.readouterr().out
    assert said.endswith("log: /labs/x/lab.log\n")
    assert "complete 5, passed 4, full 3, quota 1" in said
    assert "absorbed" not in said
    assert "dead (exit ?)" in said
