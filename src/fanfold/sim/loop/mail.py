"""What the loop leaves for the slow plane: the senders of fans, started items."""

from fanfold.kernels.jit import kernel
from fanfold.sim.loop.rows import AT_MAIL, I64, N_MAIL


@kernel
def mail(q: I64, kind: int, a: int, b: int) -> None:
    """Leave one letter; the loop goes back to Python before the next event."""
    at = q[AT_MAIL] + 3 * q[N_MAIL]
    q[at] = kind
    q[at + 1] = a
    q[at + 2] = b
    q[N_MAIL] += 1
