"""`fanfold keys`, and what pushes and receivers say of keys that are not there."""

import json

import pytest

from fanfold.api.keys import Place, Signing, describe_gate, gate_of, seals_of
from fanfold.cli.main import run
from fanfold.errors import ConfigError
from fanfold.seals.keys import keys_folder, load_keys
from fanfold.topo.lab_fabric import leaf_spine


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FANFOLD_STATE_DIR", str(tmp_path))
    return tmp_path


def told(capsys, *words, code=0):
    assert run(["keys", *words]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_a_node_gets_keys_and_others_trust_them(capsys, home):
    key = told(capsys, "init", "--node", "h0").splitlines()[0]
    assert key.startswith("ff1:")
    assert told(capsys, "show", "--node", "h0") == key + "\n"
    words = ("trust", "h0", key, "--node", "h1", "--prefix", "models", "--max-bytes", "2GB")
    assert "trusts h0" in told(capsys, *words)
    assert "trusted already h0" in told(capsys, *words)
    told(capsys, "init", "--node", "h1")
    (row,) = json.loads(told(capsys, "show", "--node", "h1", "--json"))["trusted"]
    assert (row["node"], row["key"], row["max_bytes"]) == ("h0", key, 2 * 10**9)
    by_file = ("trust", "h0", str(keys_folder("h0") / "key.pub"), "--node", "h2")
    assert "trusts h0" in told(capsys, *by_file)
    assert load_keys(keys_folder("h0")).secret_text not in told(capsys, "show", "--node", "h0")


def test_keys_are_changed_in_two_steps(capsys):
    old = told(capsys, "init", "--node", "h0").splitlines()[0]
    new = told(capsys, "rotate", "--node", "h0").splitlines()[0]
    assert told(capsys, "show", "--node", "h0").strip() == old != new
    assert told(capsys, "rotate", "--node", "h0", "--finish").splitlines()[0] == new
    assert told(capsys, "show", "--node", "h0").strip() == new
    assert "key.next" in told(capsys, "rotate", "--node", "h0", "--finish", code=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("init",), "--node: got '', allowed: a node of the fabric, or a folder by --keys"),
        (("init", "--node", "../h0"), "--node"),
        (("show", "--node", "h9"), "allowed: a folder that `fanfold keys init` made"),
        (("trust", "h0", "ff1:short", "--node", "h1"), "allowed: a public key: ff1:"),
        (("trust", "h0", "KEY", "--node", "h1", "--prefix", "/x"), "prefix"),
        (("trust", "h0", "KEY", "--node", "h1", "--max-bytes", "x"), "max_bytes"),
        (("trust", "h0", "KEY", "--node", "h1", "--until", "soon"), "ISO 8601"),
    ],
)
def test_what_is_wrong_is_one_line_with_what_is_allowed(capsys, words, said):
    key = told(capsys, "init", "--node", "h5").splitlines()[0]
    err = told(capsys, *(key if word == "KEY" else word for word in words), code=2)
    assert said in err
    assert len(err.splitlines()) == 1


def test_keys_that_exist_are_not_drawn_again(capsys):
    told(capsys, "init", "--node", "h0")
    assert "exists" in told(capsys, "init", "--node", "h0", code=2)


def test_a_push_without_keys_is_refused_by_name(home):
    assert seals_of(Signing(), "h0", None) is None
    assert seals_of(Signing(place=Place(home, None)), "h0", None, has_links=True) is None
    with pytest.raises(ConfigError, match=r"--keys.*fanfold keys init"):
        seals_of(Signing(is_signed=True), "h0", None)
    with pytest.raises(ConfigError, match=r"--trusted.*none without --sign or --seal"):
        seals_of(Signing(place=Place(None, home)), "h0", None)
    assert run(["push", str(home), "--keys", str(home), "--config", "no.toml"]) == 2


def test_a_push_does_not_know_keys_that_ended(capsys):
    key = told(capsys, "init", "--node", "h0").splitlines()[0]
    for node, until in (("h1", "1999-12-31"), ("h2", "9999-12-30")):
        theirs = told(capsys, "init", "--node", node).splitlines()[0]
        told(capsys, "trust", node, theirs, "--node", "h0", "--until", until)
    rows = json.loads(told(capsys, "show", "--node", "h0", "--json"))["trusted"]
    assert [row["until"] for row in rows] == ["1999-12-31", "9999-12-30"]
    seals = seals_of(Signing(is_signed=True), "h0", None)
    assert seals.keys.public.text == key
    assert {node: len(known) for node, known in seals.trust.items()} == {"h1": 0, "h2": 1}


def test_a_receiver_says_at_its_start_whose_pushes_it_takes(capsys, home):
    fabric = leaf_spine(1, 0, 2)
    gate = gate_of(fabric, "h1", Place())
    assert gate.is_open
    assert describe_gate("h1", gate).startswith("h1: open, takes pushes of anybody")
    key = told(capsys, "init", "--node", "h0").splitlines()[0]
    told(capsys, "trust", "h0", key, "--node", "h1")
    gate = gate_of(fabric, "h1", Place())
    assert not gate.is_open
    assert "h1: takes signed pushes of h0; without keys of its own" in describe_gate("h1", gate)
    own = told(capsys, "init", "--node", "h1").splitlines()[0]
    gate = gate_of(fabric, "h1", Place())
    assert own[:16] in describe_gate("h1", gate)
    (home / "empty.toml").write_text("")
    closed = gate_of(fabric, "h1", Place(None, home / "empty.toml"))
    assert not closed.is_open
    assert "signed pushes of nobody" in describe_gate("h1", closed)
    with pytest.raises(ConfigError, match="trust file that can be read"):
        gate_of(fabric, "h1", Place(None, home / "none.toml"))
