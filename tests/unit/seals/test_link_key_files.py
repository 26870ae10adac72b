"""Keys of links as text and files."""

from pathlib import Path

import pytest

from fanfold.errors import ConfigError
from fanfold.seals.link_keys import (
    LINK_KEY_FILE,
    LinkKey,
    load_link_key,
    make_link_key,
    read_link_public,
    session_keys,
)
from fanfold.seals.noise import Transport


def test_a_key_comes_back_from_its_file_and_is_drawn_once(tmp_path: Path) -> None:
    made = make_link_key(tmp_path / "h0")
    assert load_link_key(tmp_path / "h0").private == made.private
    assert make_link_key(tmp_path / "h0").private == made.private
    assert make_link_key(tmp_path / "h1").private != made.private
    assert (tmp_path / "h0" / LINK_KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "h0").stat().st_mode & 0o777 == 0o700
    assert read_link_public(made.text, "link_key") == made.public
    assert made.private not in made.text.encode()


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    make_link_key(tmp_path)
    (tmp_path / LINK_KEY_FILE).chmod(0o640)
    with pytest.raises(ConfigError, match="mode 640"):
        load_link_key(tmp_path)


@pytest.mark.parametrize("text", ["", "fl1-secret:abc", "fl1:AAAA"])
def test_a_file_that_holds_no_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / LINK_KEY_FILE
    path.write_text(text + "\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        load_link_key(tmp_path)
    assert "abc" not in str(caught.value).replace(str(tmp_path), "")
    with pytest.raises(ConfigError):
        load_link_key(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.replace("fl1:", "ff1:"),
        lambda text: text[:-1] + "*",
        lambda text: text[:-1] + chr(ord(text[-1]) + 1),
        lambda text: "",
    ],
)
def test_one_key_has_one_text(change) -> None:
    text = LinkKey(bytes(range(32))).text
    with pytest.raises(ConfigError, match=r"node\[1\]\.link_key"):
        read_link_public(change(text), "node[1].link_key")


def test_what_one_end_writes_the_other_checks() -> None:
    transport = Transport(b"a" * 32, b"b" * 32, bytes(32))
    one = session_keys(transport, is_initiator=True)
    other = session_keys(transport, is_initiator=False)
    assert (one.out, one.came) == (other.came, other.out)
    assert one.out != one.came
