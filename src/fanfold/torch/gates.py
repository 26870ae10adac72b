"""What PyTorch gives to named backends only, opened for groups of this one."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any


def open_monitored_barrier(dist: Any, name: str) -> None:
    """Let ``monitored_barrier``, which PyTorch keeps for gloo, call a group of this backend.

    Args:
        dist: torch.distributed. name: of the backend.
    """
    c10d = dist.distributed_c10d
    own: Callable[..., None] = c10d.monitored_barrier

    @wraps(own)
    def monitored_barrier(
        group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
    ) -> None:
        if c10d._rank_not_in_group(group) or c10d.get_backend(group) != name:
            own(group, timeout, wait_all_ranks)
            return
        found = group or c10d._get_default_group()
        if not (timeout is None or isinstance(timeout, timedelta)):
            timeout = timedelta(seconds=timeout)  # as PyTorch takes numbers here
        found.monitored_barrier(found.timeout if timeout is None else timeout, wait_all_ranks)

    c10d.monitored_barrier = dist.monitored_barrier = monitored_barrier
