"""Loopback addresses of a lab's nodes, by their number in the net."""

NODES_PER_BLOCK = 250
FIRST_BLOCK = 81


def address_of(index: int, prefix: int) -> str:
    """Loopback address of a node of the net, of lab ``prefix``."""
    block, last = divmod(index, NODES_PER_BLOCK)
    return f"127.{FIRST_BLOCK + block}.{prefix}.{last + 1}"
