"""Settings below which nothing gets through as asked: refused, with the least that works."""

from fanfold.errors import ConfigError
from fanfold.kernels.layout import BITS_AT, FAN_BYTES, INNER_BYTES
from fanfold.scenario.settings import Settings
from fanfold.scenario.width import with_width
from fanfold.schemes.program import Program


def check_room(settings: Settings, program: Program, n_hosts: int, segment_pkts: int) -> None:
    """A queue holds a full packet; a window holds what is sent in one go.

    Args:
        n_hosts: of the net. segment_pkts: of a train, which leaves whole.

    Raises:
        ConfigError: a queue or a window too small, with the least that works.
    """
    is_bier = bool(program.fans) and not program.trees
    least = packet_bytes(settings, n_hosts, is_bier=is_bier)
    if 0 < settings.queue_bytes < least:
        allowed = f"0 for no limit, or {least} and more: a packet"
        raise ConfigError("settings.queue_bytes", settings.queue_bytes, allowed)
    if 0 < settings.window_pkts < segment_pkts and program.src.size:
        allowed = f"0 for no limit, or {segment_pkts} and more, a train; or fidelity packet"
        raise ConfigError("settings.window_pkts", settings.window_pkts, allowed)


def packet_bytes(settings: Settings, n_hosts: int, *, is_bier: bool) -> int:
    """Bytes of the longest packet: with a BitString where there are fans by BIER."""
    head = settings.header_bytes
    if is_bier:
        bits = with_width(settings, n_hosts).bitstring_bits
        fixed = settings.underlay_bytes + BITS_AT + INNER_BYTES + FAN_BYTES
        head = max(head, fixed + bits // 8)
    return settings.payload_bytes + head
