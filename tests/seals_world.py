"""A sender and a receiver with keys, and packets between them that an attacker may touch."""

from pathlib import Path

from kernel_nodes import BFIR

from fanfold.push import manifest as manifests
from fanfold.push.author import Author
from fanfold.push.gate import Gate
from fanfold.push.placed import Placed
from fanfold.push.source import Wish, build_manifest
from fanfold.seals.keys import KeyPair
from fanfold.seals.trust import Seals, Trusted

SENDER, RECEIVER, OTHER = (KeyPair(bytes([n]) * 32, bytes([n + 1]) * 32) for n in (1, 3, 5))
NAMES = {BFIR: "h0", 1: "h1", 2: "h2"}
STRIDE, N_PSN = 8, 4


def trusted(node: str = "h0", keys: KeyPair = SENDER, **more: object) -> Trusted:
    return Trusted(node, keys.public, **more)


def gate_of(
    *rows: Trusted, keys: KeyPair | None = RECEIVER, bfr_id: int = 1, path: Path | None = None
) -> Gate:
    """A gate of a receiver that trusts these rows; none: the sender's key."""
    trust: dict[str, tuple[Trusted, ...]] = {}
    for row in rows or (trusted(),):
        trust[row.node] = (*trust.get(row.node, ()), row)
    return Gate(bfr_id, keys, trust, lambda i: NAMES.get(i, f"BFR-id {i}"), Placed(path))


class Signed:
    """A push of one file by a sender with keys. keys: who signs."""

    def __init__(
        self,
        folder: Path,
        flow: int,
        nonce: int,
        *,
        data: bytes = b"a hundred bytes of data, " * 4,
        name: str = "a.bin",
        keys: KeyPair = SENDER,
        receiver: KeyPair = RECEIVER,
        is_sealed: bool = False,
        wish_name: str = "",
        epoch: int = 0,
        takes_over: bool = False,
        bfir_id: int = BFIR,
        only_through: str = "",
    ) -> None:
        path = folder / "source" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        trust = {"h1": (trusted("h1", receiver),)}
        seals = Seals(keys, trust, is_sealed)
        self.data = data
        self.manifest, reader = build_manifest(
            path, STRIDE, N_PSN, wish=Wish(wish_name, seals=seals, only_through=only_through)
        )
        self.author = Author(seals, {"h1": 1}, flow, nonce, bfir_id)
        encoded = manifests.encode(self.manifest)
        self.envelope = self.author.envelope(encoded, epoch, takes_over)
        read = self.author.sealing(reader.read_chunk)
        room, self.stream = memoryview(bytearray(STRIDE * N_PSN)), b""
        for block in range(manifests.n_chunks(self.manifest)):
            self.stream += bytes(room[: read(block, room)])
        reader.close()
