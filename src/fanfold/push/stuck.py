"""When a receiver that has everything, and answers, but never ends is given up."""

from fanfold.push.peer import Peer, State
from fanfold.push.proof import Proof
from fanfold.units import NEVER, PS_PER_SECOND

STALL_PS = 20_000_000_000_000
"""A receiver that has everything, and answers, but never ends: given up as well."""
STALL_S = STALL_PS // PS_PER_SECOND
DISK_STALL_PS = 120_000_000_000_000
DISK_STALL_S = DISK_STALL_PS // PS_PER_SECOND
"""One step of putting files in place, a disk's flush for example, may take this long."""
CHECK_PS = 120_000_000_000_000
CHECK_PS_PER_BYTE = 100_000
CHECK_PS_PER_FILE = 100_000_000_000
"""A receiver may work on its disk for this long in all, whatever progress it tells of: two
minutes, and as long as 10 MB/s and ten files a second take."""


def why_stuck(now_ps: int, peer: Peer, proof: Proof, n_bytes: int) -> str:
    """Why to give up a receiver that lacks nothing; empty: it is waited for."""
    if peer.idle_ps == NEVER:
        peer.idle_ps = peer.moved_ps = now_ps
    most_ps = CHECK_PS + proof.n_files * CHECK_PS_PER_FILE + n_bytes * CHECK_PS_PER_BYTE
    is_over = now_ps - peer.idle_ps >= most_ps
    limit_ps = DISK_STALL_PS if peer.state == State.FINISHING else STALL_PS
    if now_ps - peer.moved_ps < limit_ps and not is_over:
        return ""
    if peer.other:
        got, want = peer.other.hex()[:16], proof.digest.hex()[:16]
        return f"done with BLAKE3 {got}, the source has {want}"
    if is_over:
        return "works on its disk without end"
    if peer.state == State.FINISHING:
        return f"puts files in place, no step of it done in {DISK_STALL_S} s"
    what = "looks at its disk" if peer.state == State.CHECKING else "has everything"
    return f"{what}, not ended in {STALL_S} s"
