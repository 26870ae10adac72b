"""Sources to push, and the hands that carry chunks from a reader to an incoming push."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fanfold import streams
from fanfold.push.source import SourceReader, Wish, build_manifest
from fanfold.push.store import Incoming, Store

Files = dict[str, bytes]
MODEL = Wish("model")


@pytest.fixture
def content() -> Callable[[str, int], bytes]:
    def draw(name: str, size: int) -> bytes:
        return streams.stream(7, name).bytes(size)

    return draw


@pytest.fixture
def plant(tmp_path: Path) -> Callable[..., Path]:
    """Write files below tmp_path/name."""

    def write(files: Files, name: str = "src") -> Path:
        top = tmp_path / name
        top.mkdir(parents=True, exist_ok=True)
        for path, data in files.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(data)
        return top

    return write


@pytest.fixture
def checked() -> Callable[[Incoming], Incoming]:
    """Run the check in small steps."""

    def run(incoming: Incoming) -> Incoming:
        while not incoming.check_some(1000):
            pass
        return incoming

    return run


@pytest.fixture
def carry() -> Callable[..., list[int]]:
    """Carry the lacking chunks, in the order given; return their numbers."""

    def run(
        reader: SourceReader, incoming: Incoming, chunks: range | list[int] | None = None
    ) -> list[int]:
        buffer = bytearray(reader.layout.chunk_bytes)
        numbers = range(reader.layout.n_chunks) if chunks is None else chunks
        sent = [i for i in numbers if not incoming.has(i)]
        for i in sent:
            size = reader.read_chunk(i, buffer)
            assert incoming.write_chunk(i, memoryview(buffer)[:size])
        return sent

    return run


@pytest.fixture
def landed() -> Callable[[Path], Files]:
    """All regular files below a folder."""

    def read(root: Path) -> Files:
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    return read


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one mebibyte; needs root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mount needs root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)  # a failed test holds files


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A folder that every user reaches; tmp_path is private to one."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def as_nobody() -> Callable[[], object]:
    """Without the privileges of root, to which no file is unreadable."""

    @contextmanager
    def run() -> Iterator[None]:
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(was)

    return run


@pytest.fixture
def send(
    tmp_path: Path, checked: Callable[[Incoming], Incoming], carry: Callable[..., list[int]]
) -> Callable[..., None]:
    """Push a folder into tmp_path/root."""

    def run(source: Path, wish: Wish = MODEL, **options: bool) -> None:
        manifest, reader = build_manifest(source, 10, 1, wish=wish)
        incoming = checked(Store(tmp_path / "root", **options).open_push(manifest))
        carry(reader, incoming)
        incoming.finish()
        reader.close()

    return run
