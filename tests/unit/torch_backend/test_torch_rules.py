"""Where a group finds what to do about ranks that are late."""

import pytest
from torch_need import need_torch

need_torch()

from fanfold.errors import ConfigError  # noqa: E402
from fanfold.group.rules import Rules  # noqa: E402
from fanfold.torch.build import build_communicator  # noqa: E402
from fanfold.torch.placement import (  # noqa: E402
    FanfoldOptions,
    find_root,
    find_rules,
    find_secret,
)

MS = 10**9


def test_rules_are_those_of_the_options_then_of_the_environment():
    env = {"FANFOLD_STRAGGLERS": "partial", "FANFOLD_PATIENCE_MS": "250", "FANFOLD_ROOT": "h3"}
    assert find_rules(None, {}) == Rules("wait", 1000 * MS)
    assert find_rules(None, env) == Rules("partial", 250 * MS)
    assert find_rules(FanfoldOptions(), env) == Rules("partial", 250 * MS)
    own = FanfoldOptions(stragglers="exclude", patience_ms=65535, root="h1")
    assert find_rules(own, env) == Rules("exclude", 65535 * MS)
    assert (find_root(own, env), find_root(None, env), find_root(None, {})) == ("h1", "h3", "")


def test_the_secret_of_sums_is_long_enough_and_in_no_text():
    secret = "known to ranks alone"
    assert find_secret(None, {}) == b""
    assert find_secret(None, {"FANFOLD_CHECK": secret}) == secret.encode()
    own = FanfoldOptions(check=secret)
    assert find_secret(own, {}) == secret.encode()
    assert secret not in repr(own)
    with pytest.raises(ConfigError, match="FANFOLD_CHECK: got '15 characters'") as refused:
        find_secret(None, {"FANFOLD_CHECK": secret[:15]})
    assert secret[:15] not in str(refused.value)


@pytest.mark.parametrize("patience", ["0", "65536", "-1", "1.5", "soon", "123456789012"])
def test_a_patience_that_packets_cannot_say_is_refused(patience):
    with pytest.raises(ConfigError, match=r"65535"):
        find_rules(None, {"FANFOLD_PATIENCE_MS": patience})


def test_a_policy_that_nobody_knows_is_refused_by_name():
    with pytest.raises(ConfigError, match="FANFOLD_STRAGGLERS: got 'never', allowed: wait"):
        find_rules(None, {"FANFOLD_STRAGGLERS": "never"})


def test_numbers_are_those_of_the_options_then_of_the_environment():
    env = {"FANFOLD_NUMBERS": "block"}
    assert find_rules(None, env) == Rules("wait", 1000 * MS, "block")
    assert find_rules(FanfoldOptions(numbers="value"), env) == Rules("wait", 1000 * MS, "value")
    with pytest.raises(ConfigError, match="FANFOLD_NUMBERS: got 'half', allowed: value, block"):
        find_rules(None, {"FANFOLD_NUMBERS": "half"})


def test_the_communicator_is_built_as_they_say(monkeypatch):
    monkeypatch.setattr("fanfold.group.fabric.FabricCommunicator", lambda *_, **given: given)
    monkeypatch.setenv("FANFOLD_STRAGGLERS", "exclude")
    monkeypatch.setenv("FANFOLD_ROOT", "h3")
    own = FanfoldOptions(patience_ms=20, planes="1, 2")
    built = build_communicator(None, ["h1"], 0, 5, 7, own)
    assert built.pop("find_teller")([1, 2]).latest is None  # there is no lab
    assert built == {
        "group": 5,
        "timeout_ps": 7,
        "root": "h3",
        "stragglers": "exclude",
        "patience_ps": 20 * MS,
        "numbers": "value",
        "secret": b"",
        "planes": "1,2",
    }
