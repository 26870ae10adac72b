"""A backend of torch.distributed: collectives of unmodified PyTorch programs on a fabric.

``import fanfold.torch``, or the entry point that PyTorch loads by itself, registers
``backend="fanfold"`` for tensors in memory. Where the fabric and this rank's host are found
is in ``placement``. Needs the extra ``fanfold[torch]``.

PyTorch is imported by ``register``, when all else here is defined: it asks for the entry point
in the midst of its own import.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from fanfold.errors import ConfigError
from fanfold.torch.gates import open_monitored_barrier
from fanfold.torch.placement import FanfoldOptions
from fanfold.torch.store import Connections

NAME = "fanfold"
_n_made: Counter[str] = Counter()
_connections = Connections()

__all__ = ["NAME", "FanfoldOptions", "counters", "register"]


def register() -> None:
    """Make ``backend="fanfold"`` known; a second call changes nothing."""
    import torch.distributed as dist  # noqa: PLC0415 - see above

    if dist.is_available() and NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
        open_monitored_barrier(dist, NAME)


def counters(group: Any = None) -> dict[str, int]:
    """What the group's communicator counted so far, and ``all_gathered``: host algorithms.

    Args:
        group: a process group of this backend, or None for the default one.
    """
    import torch.distributed as dist  # noqa: PLC0415 - see above

    found: dict[str, int] = (group or dist.group.WORLD).counters()
    return found


def _create(options: Any, own: object) -> Any:
    from fanfold.torch.group import create_group  # noqa: PLC0415 - loads numba; only when used
    from fanfold.torch.work import as_torch  # noqa: PLC0415

    if not (own is None or isinstance(own, FanfoldOptions)):
        allowed = "fanfold.torch.FanfoldOptions(...)"
        raise as_torch(ConfigError("pg_options", type(own).__name__, allowed), "group")
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    timeout = options.timeout or timedelta(minutes=30)
    store = own_store(options.store, ranks)
    return create_group(store, options.group_rank, ranks, timeout, str(options.group_id), own)


def own_store(store: Any, ranks: list[int]) -> Callable[[], Any]:
    """What opens a part of the store that only this group has, whenever each rank makes it.

    All groups of the process share a connection (``Connections``).

    PyTorch names a group, and its part of the store, by how many groups the rank made before;
    ranks that make groups in different orders would never meet. Here it is named by its ranks,
    and how many groups of just these ranks there were.
    """
    import torch.distributed as dist  # noqa: PLC0415 - see above

    for _ in ("of the device", "of the group"):
        if isinstance(store, dist.PrefixStore):
            store = store.underlying_store
    key = blake2b(repr(ranks).encode(), digest_size=8).hexdigest()
    _n_made[key] += 1
    prefix = f"fanfold/{key}/{_n_made[key]}/"
    return lambda: dist.PrefixStore(prefix, _connections.of(store))


register()
