"""What the loop leaves for the slow plane: the senders of fans, started items."""

from fanfold.kernels.jit import kernel
from fanfold.sim.loop.rows import AT_UPCALLS, I64, N_UPCALLS


@kernel
def upcall(q: I64, kind: int, a: int, b: int) -> None:
    """Leave one upcall; the loop goes back to Python before the next event."""
    at = q[AT_UPCALLS] + 3 * q[N_UPCALLS]
    q[at] = kind
    q[at + 1] = a
    q[at + 2] = b
    q[N_UPCALLS] += 1
