"""A receiver's files as a source: the first source's manifest, and bytes of its own."""

import shutil

import pytest

from fanfold.errors import ConfigError
from fanfold.push.handed import Handed, open_handed
from fanfold.push.source import Wish, build_manifest


@pytest.mark.parametrize("name", ["", "models/here", "."])
def test_what_arrived_is_read_back_chunk_by_chunk(tmp_path, name):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "a.bin").write_bytes(bytes(range(256)) * 10)
    (tree / "sub" / "x").write_text("hi")
    (tree / "zero").touch()
    manifest, reader = build_manifest(tree, 100, 8, wish=Wish(name))
    here = tmp_path / "here"
    shutil.copytree(tree, here / (name or "tree"))
    again, handed = open_handed(Handed(manifest, here))
    assert again is manifest
    room, other = bytearray(800), bytearray(800)
    for i in range(reader.layout.n_chunks):
        assert reader.read_chunk(i, room) == handed.read_chunk(i, other)
        assert room == other
    assert reader.layout.n_chunks == 4
    handed.close()
    reader.close()


def test_what_changed_its_size_or_went_is_refused(tmp_path):
    file = tmp_path / "a.bin"
    file.write_bytes(b"1234")
    manifest, reader = build_manifest(file, 100, 8, wish=Wish())
    reader.close()
    with pytest.raises(ConfigError, match="No such file"):
        open_handed(Handed(manifest, tmp_path / "else"))
    file.write_bytes(b"123")
    with pytest.raises(ConfigError, match="3 bytes', allowed: 4, as it arrived"):
        open_handed(Handed(manifest, tmp_path))
