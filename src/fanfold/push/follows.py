"""The flows that a receiver follows: rows of the arrays that ``collect_pass`` fills.

A push has two, its manifest and its data. Each has a stretch of the have-map, a byte a block.
"""

import numpy as np

from fanfold.kernels import collect as c
from fanfold.kernels.speak import WHOLE_ROW
from fanfold.kernels.state import Rows
from fanfold.push.session import Session
from fanfold.push.store import Incoming, StoreError
from fanfold.wire.report import ReportError


class Follows:
    """Which row is whose."""

    def __init__(self, collect: c.Collect) -> None:
        self._collect = collect
        self.by_row: dict[int, tuple[Session, int]] = {}

    def begin(self, session: Session, which: int, flow: int, n_blocks: int) -> bool:
        """Follow a flow; False where there is no row, or no room in the have-map."""
        rows = self._collect.follow
        free = np.flatnonzero(rows["used"] == 0)
        at = self._map_room(n_blocks)
        if not free.size or at is None:
            return False
        f = int(free[0])
        rows[f] = np.zeros((), rows.dtype)
        row = rows[f]
        row["used"], row["bfir_id"], row["flow"] = 1, session.bfir_id, flow
        row["map_at"], row["map_len"] = at, n_blocks
        row["newest"] = row["front"] = -1
        row["heard_ps"], row["entropy"] = session.heard_ps, session.entropy
        self._collect.have[at : at + n_blocks] = 0
        session.follow[which] = f
        self.by_row[f] = (session, which)
        return True

    def begin_data(self, session: Session, incoming: Incoming, tag_bytes: int) -> None:
        """Follow the data of a push that is open; tag_bytes: of each block, of a sealed one.

        Raises:
            StoreError: TOO_LARGE.
        """
        manifest, n = incoming.manifest, incoming.layout.n_chunks
        size, most = manifest.chunk_bytes + tag_bytes, self._collect.room.shape[1]
        if size > most:
            message = f"chunk of {size} bytes, allowed {most}"
            raise StoreError(ReportError.TOO_LARGE, message)
        if not self.begin(session, 1, session.flow | 1, n):
            message = f"{n} chunks, allowed {self._collect.have.shape[0]}"
            raise StoreError(ReportError.TOO_LARGE, message)
        row = self._collect.follow[session.follow[1]]
        last = incoming.layout.chunk_size(n - 1) + tag_bytes
        row["stride"], row["n_psn"], row["n_blocks"] = manifest.stride, manifest.n_psn, n
        row["last_n_psn"] = -(-last // manifest.stride)
        row["is_told"] = 1
        row["last_bytes"] = last - (int(row["last_n_psn"]) - 1) * manifest.stride

    def end(self, session: Session, which: int) -> None:
        """Follow it no more."""
        f = session.follow[which]
        if f < 0:
            return
        self._collect.blocks["state"][self._collect.blocks["follow"] == f] = c.FREE
        self._collect.follow[f]["used"] = 0
        del self.by_row[f]
        session.follow[which] = -1

    def port_of(self, f: int, r: int) -> int:
        """Port by which a block came, or the last packet of its flow (WHOLE_ROW); 0: none."""
        if f < 0:
            return 0
        row = self._collect.follow[f] if r == WHOLE_ROW else self._collect.blocks[r]
        return int(row["port"])

    def has(self, f: int, block: int) -> bool:
        """The block is here; a row may have changed hands since an event named it."""
        row = self._collect.follow[f]
        at = int(row["map_at"]) + block
        return block < int(row["map_len"]) and bool(self._collect.have[at])

    def mark(self, session: Session, have: bytes | bytearray, n: int) -> None:
        """Blocks of the data that are there already, of ``n``; as ``Incoming.have``."""
        at = int(self._collect.follow[session.follow[1]]["map_at"])
        bits = np.unpackbits(np.frombuffer(bytes(have), np.uint8))
        self._collect.have[at : at + n] |= bits[:n]

    def have_slice(self, session: Session, n: int, cursor: int, n_bytes: int) -> bytes:
        """A slice of the have-map of the data, of ``n`` blocks in all, as a REPORT has it."""
        first = int(self._collect.follow[session.follow[1]]["map_at"])
        at = first + cursor * n_bytes * 8
        end = first + min(n, (cursor + 1) * n_bytes * 8)
        return np.packbits(self._collect.have[at:end]).tobytes() if at < end else b""

    def heard_ps(self, session: Session) -> int:
        """When the sender of a push was heard last."""
        rows = (f for f in session.follow.values() if f >= 0)
        times = (int(self._collect.follow[f]["heard_ps"]) for f in rows)
        return max([session.heard_ps, *times])

    def _map_room(self, n: int) -> int | None:
        """First place of ``n`` free bytes in the have-map."""
        rows = self._collect.follow
        at = 0
        for f in sorted(self.by_row, key=lambda f: int(rows[f]["map_at"])):
            if int(rows[f]["map_at"]) - at >= n:
                return at
            at = int(rows[f]["map_at"] + rows[f]["map_len"])
        return at if self._collect.have.shape[0] - at >= n else None


def block_bytes(row: Rows, follow: Rows) -> int:
    """Bytes of a block that is whole."""
    return (int(row["n_psn"]) - 1) * int(follow["stride"]) + int(row["tail"])
