"""What a node's ports refuse before anything runs."""

import msgspec
import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.kernels.feedback import write_feedback
from fanfold.kernels.layout import MAX_PSN, UNDERLAY_BYTES
from fanfold.kernels.slots import lack, open_slot
from fanfold.kernels.state import build_fold
from fanfold.live.ports import check_mtu, least_mtu, require_mtu
from fanfold.topo.lab_fabric import leaf_spine
from fanfold.wire.bitstring import bift_id, bsl_of_bits

SIZES = [64, 256, 1024, 4096]


@pytest.mark.parametrize("n_bits", SIZES)
def test_the_least_mtu_carries_a_word_with_one_row_exactly(n_bits: int) -> None:
    words = n_bits // 64
    fold = build_fold(1, words)
    slot = open_slot(fold, 9, 7, 0, bift_id(bsl_of_bits(n_bits), 0, 0))
    fold.rows[slot]["n_words"], fold.rows[slot]["n_psn"] = words, 4
    lack(fold, slot, 2, np.ones(words, np.uint64), words)
    coded = write_feedback(fold, slot, 1, 10_000, 0, np.zeros(1 << 16, np.uint8))
    assert divmod(coded, 128) == (least_mtu(n_bits) - UNDERLAY_BYTES, MAX_PSN)


@pytest.mark.parametrize("n_bits", SIZES)
def test_an_mtu_without_room_for_a_row_is_refused_by_name(n_bits: int) -> None:
    fabric = leaf_spine(1, 0, 2, name="x", prefix=0)
    fabric = msgspec.structs.replace(fabric, bitstring_bits=n_bits, mtu=least_mtu(n_bits))
    require_mtu(fabric)
    small = msgspec.structs.replace(fabric, mtu=fabric.mtu - 1)
    for refuse in (lambda: require_mtu(small), lambda: check_mtu(small, "leaf1")):
        with pytest.raises(ConfigError) as raised:
            refuse()
        assert "fabric.mtu" in str(raised.value)
        assert f"at least {least_mtu(n_bits)}" in str(raised.value)


def test_a_neighbour_at_a_broadcast_address_of_this_machine_is_refused_by_name() -> None:
    """What a file cannot tell, as it has no netmasks: the kernel can."""
    fabric = leaf_spine(1, 0, 2, name="x", prefix=0)
    check_mtu(fabric, "leaf1")
    nodes = [
        msgspec.structs.replace(n, address="127.255.255.255") if n.name == "h1" else n
        for n in fabric.nodes
    ]
    with pytest.raises(ConfigError) as raised:
        check_mtu(msgspec.structs.replace(fabric, nodes=tuple(nodes)), "leaf1")
    assert str(raised.value).startswith(
        "h1.address: got '127.255.255.255', allowed: an address"
    )
