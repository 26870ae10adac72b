"""Symbolic links of a source: followed where they end inside, refused by name where not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.errors import ConfigError
from fanfold.push.scan import scan
from fanfold.push.source import build_manifest

Plant = Callable[..., Path]


def listed(path: Path, *roots: Path) -> dict[str, bytes]:
    """Paths as they arrive, and the bytes behind them."""
    return {file.path: Path(file.full_path).read_bytes() for file in scan(path, roots).files}


def refusal(path: Path, *roots: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        scan(path, roots)
    return caught.value


def test_links_that_end_inside_arrive_as_what_they_lead_to(plant: Plant) -> None:
    top = plant({"a/real": b"1", "b/c": b"2"})
    (top / "link").symlink_to("a/real")
    (top / "a/up").symlink_to("../b")
    (top / "hop").symlink_to(top / "link")
    files = {"a/real": b"1", "b/c": b"2", "link": b"1", "hop": b"1", "a/up/c": b"2"}
    assert listed(top) == files
    assert [folder.path for folder in scan(top).folders] == ["", "a", "a/up", "b"]
    manifest, reader = build_manifest(top, 10, 4)
    buffer = bytearray(40)
    assert reader.read_chunk(0, buffer) == manifest.total_bytes == 5
    reader.close()


def test_links_that_lead_out_are_refused_by_name_and_flag(plant: Plant) -> None:
    top = plant({"a/b": b"1"})
    outside = plant({"secret": b"2", "d/e": b"3"}, "outside")
    near = plant({"x": b"4"}, "src-too")  # begins with the name of the source
    for name, end in (("f", outside / "secret"), ("g", outside / "d"), ("h", near / "x")):
        (top / "a" / name).symlink_to(end)
        error = refusal(top)
        assert error.field == str(top / "a" / name)
        assert str(end) in error.got
        assert "--follow" in error.allowed
        assert listed(top, end.parent)
        (top / "a" / name).unlink()
    (top / "a/f").symlink_to(outside / "d/../secret")
    assert refusal(top, outside / "d").field == str(top / "a/f")
    assert listed(top, outside)["a/f"] == b"2"
    assert refusal(top, outside / "none").field == "--follow"


def test_links_that_lead_nowhere_or_in_circles_are_refused_by_name(plant: Plant) -> None:
    top = plant({"a/b": b"1"})
    for name, end in (("no", "none"), ("self", "self"), ("a/loop", ".."), ("a/dot", ".")):
        (top / name).symlink_to(end)
        assert refusal(top).field == str(top / name)
        (top / name).unlink()
    (top / "c").mkdir()
    (top / "a/to_c").symlink_to("../c")
    (top / "c/to_a").symlink_to("../a")
    assert refusal(top).got.startswith("symbolic link to ")


def test_a_link_that_is_pushed_itself_leads_where_it_leads(plant: Plant) -> None:
    outside = plant({"d/e": b"3"}, "outside")
    top = plant({})
    (top / "v1").symlink_to(outside / "d")
    (top / "file").symlink_to(outside / "d/e")
    found = scan(top / "v1")
    assert (found.name, [file.path for file in found.files]) == ("v1", ["e"])
    assert listed(top / "file") == {"file": b"3"}


def hub(top: Path) -> Path:
    """A model as huggingface_hub keeps it: snapshots of links into blobs."""
    model = top / "models--org--name"
    snapshot = model / "snapshots/0123abcd"
    (snapshot / "onnx").mkdir(parents=True)
    (model / "blobs").mkdir()
    (model / "refs").mkdir()
    (model / "refs/main").write_text("0123abcd")
    for path, blob in (("config.json", "aa"), ("onnx/model.onnx", "bb")):
        (model / "blobs" / blob).write_bytes(blob.encode())
        up = "../" * (2 + path.count("/"))
        (snapshot / path).symlink_to(f"{up}blobs/{blob}")
    return snapshot


def test_a_snapshot_of_a_hub_cache_arrives_without_a_flag(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    assert listed(snapshot) == {"config.json": b"aa", "onnx/model.onnx": b"bb"}
    assert listed(snapshot / "onnx") == {"model.onnx": b"bb"}
    assert listed(snapshot / "config.json") == {"config.json": b"aa"}
    (tmp_path / "secret").write_bytes(b"no")
    (snapshot / "evil").symlink_to("../../../secret")
    assert refusal(snapshot).field == str(snapshot / "evil")
    (snapshot / "evil").unlink()
    (snapshot / "ref").symlink_to("../../refs/main")  # of the model, but no blob
    assert refusal(snapshot).field == str(snapshot / "ref")
