"""Files of keys, public keys as text, and the file that says whom a node trusts."""

import stat

import pytest

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.seals import keys as k
from fanfold.seals.trust import TrustRow, add_trust, is_below, load_trust


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_of_keys_is_its_owners_alone(tmp_path):
    folder = tmp_path / "keys" / "h0"
    made = k.make_keys(folder)
    assert mode_of(folder) == 0o700
    assert mode_of(folder / k.KEY_FILE) == 0o600
    read = k.load_keys(folder)
    assert (read.signing, read.agreement) == (made.signing, made.agreement)
    assert (folder / k.PUBLIC_FILE).read_text() == made.public.text + "\n"
    with pytest.raises(ConfigError, match="exists"):
        k.make_keys(folder)
    assert k.load_keys(folder).public == made.public


def test_no_two_keys_are_alike():
    drawn = [k.draw_keys() for _ in range(4)]
    halves = {half for one in drawn for half in (one.signing, one.agreement)}
    assert len(halves) == 8


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    k.make_keys(tmp_path)
    (tmp_path / k.KEY_FILE).chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:o}.*600"):
        k.load_keys(tmp_path)


def test_what_is_no_key_is_refused_and_not_shown(tmp_path):
    k.make_keys(tmp_path)
    for text in ("ff1-secret:secret", "hunter2", "", "ff1:" + "A" * 86, "\0"):
        (tmp_path / k.KEY_FILE).write_text(text)
        with pytest.raises(ConfigError) as caught:
            k.load_keys(tmp_path)
        assert not text or text not in str(caught.value)
    (tmp_path / k.KEY_FILE).unlink()
    with pytest.raises(ConfigError, match="No such file"):
        k.load_keys(tmp_path)


def test_where_no_folder_can_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLack, match="--keys"):
        k.make_keys(tmp_path / "file" / "below")


def test_a_public_key_has_one_text():
    public = k.PublicKey(b"\xff" * 32, b"\x00" * 32)
    text = public.text
    assert len(text) == len("ff1:") + 86
    assert k.read_public(text, "key") == public
    assert k.read_public(text + "\n", "key") == public
    wrong = [text[:-1], text + "A", text.replace("ff1", "ff2"), text.replace("_", "/"), "ff1:"]
    wrong.append(text[:-1] + "B")  # bits that no key has: another spelling of the same bytes
    for each in wrong:
        with pytest.raises(ConfigError, match="a public key: ff1:"):
            k.read_public(each, "key")


def test_staged_keys_take_the_place_of_the_old_ones_at_the_end(tmp_path):
    old = k.make_keys(tmp_path).public
    with pytest.raises(ConfigError):
        k.use_next(tmp_path)
    new = k.make_keys(tmp_path, k.NEXT_FILE).public
    assert k.load_keys(tmp_path).public == old
    assert mode_of(tmp_path / k.NEXT_FILE) == 0o600
    assert k.use_next(tmp_path).public == k.load_keys(tmp_path).public == new
    assert (tmp_path / k.PUBLIC_FILE).read_text().strip() == new.text
    assert not (tmp_path / k.NEXT_FILE).exists()


def text_of(n):
    return k.PublicKey(bytes([n]) * 32, bytes([n + 1]) * 32).text


def test_a_trust_file_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "below" / "trusted.toml"
    rows = [
        TrustRow("h0", text_of(1), "models/", "2GB", 'the "lab"'),
        TrustRow("h1", text_of(3), is_sender=False),
        TrustRow("h0", text_of(5)),
    ]
    for row in rows:
        assert add_trust(path, row)
        assert not add_trust(path, row)
    assert mode_of(path) == 0o600
    trust = load_trust(path)
    assert [one.key.text for one in trust["h0"]] == [text_of(1), text_of(5)]
    first, (peer,) = trust["h0"][0], trust["h1"]
    assert (first.prefix, first.max_bytes, first.label) == ("models", 2 * 10**9, 'the "lab"')
    assert (peer.is_sender, peer.max_bytes) == (False, None)
    assert add_trust(path, TrustRow("h0", text_of(1), "other"))
    assert [one.prefix for one in load_trust(path)["h0"]] == ["other", ""]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('key = "ff1:short"', r"trust\[0\].key: got 'ff1:short', .*a public key"),
        ("node = 5", r"trust\[0\].node"),
        ('prefix = "../x"', r"trust\[0\].prefix.*below the receiver"),
        ('max_bytes = "many"', r"trust\[0\].max_bytes"),
        ('label = "a\\nb"', r"trust\[0\].label"),
        ('who = "h1"', "who"),
        ("key = ", "TOML"),
    ],
)
def test_a_fault_of_a_trust_file_is_named_by_its_field(tmp_path, line, said):
    rows = {"node": 'node = "h0"', "key": f'key = "{text_of(1)}"'}
    rows[line.split(" ", 1)[0]] = line
    path = tmp_path / "trusted.toml"
    path.write_text("[[trust]]\n" + "\n".join(rows.values()) + "\n")
    with pytest.raises(ConfigError, match=said) as caught:
        load_trust(path)
    assert str(path) in str(caught.value)


def test_a_key_is_of_one_node(tmp_path):
    path = tmp_path / "trusted.toml"
    add_trust(path, TrustRow("h0", text_of(1)))
    with pytest.raises(ConfigError, match=r"--node.*h0"):
        add_trust(path, TrustRow("h1", text_of(1)))
    with path.open("a") as file:
        file.write(f'[[trust]]\nnode = "h1"\nkey = "{text_of(1)}"\n')
    with pytest.raises(ConfigError, match=r"trust\[1\].key.*h0"):
        load_trust(path)


def test_below_a_prefix_is_below_a_folder():
    for path in ("models", "models/a", "models/a/b"):
        assert is_below(path, "models")
        assert is_below(path, "")
    for path in ("models2", "model", "other/models", ""):
        assert not is_below(path, "models")
