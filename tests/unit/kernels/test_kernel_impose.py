import naive
import numpy as np
import pytest
from kernel_nodes import BFIR, BFIR_ADDR, BIFT_ID, FLOW_PORT

from fanfold.kernels.impose import impose
from fanfold.streams import stream
from fanfold.wire.bier import BierHeader
from fanfold.wire.fan import Data
from fanfold.wire.inner import GROUP_ADDRESS
from fanfold.wire.packet import build, parse

POLL, LAST, REPAIR = 1, 2, 4


def imposed(bits, wanted, *, stride=10, n_payload=None, flags=POLL, max_bytes=10**5, bsl=1):
    """All packets of a block, and how many bytes each call wrote."""
    n_psn, n_words = len(bits), 1 << (bsl - 1)
    n_payload = n_psn * stride if n_payload is None else n_payload
    payload = stream(n_payload, "tests/payload").bytes(n_payload)
    header = BierHeader(bift_id=bsl << 16, ttl=64, bfir_id=BFIR, bitstring=1)
    said = Data(flow=7, block=5, n_psn=n_psn, psn=0, stride=stride, first_ttl=64, flags=flags)
    whole = build(header, BFIR_ADDR, GROUP_ADDRESS, FLOW_PORT, said, b"x")
    head = np.array([*whole[:-1]], np.uint8)
    words = [[b >> 64 * w & naive.WORD - 1 for w in range(n_words)] for b in bits]
    rows = np.array(words, np.uint64).reshape(n_psn, n_words)
    out = np.zeros(max_bytes, np.uint8)
    body = np.array([*payload], np.uint8)
    psn, packets, sizes = 0, [], []
    while psn < n_psn:
        assert len(sizes) <= n_psn
        coded = impose(
            out, head, body, n_payload, n_words, stride, rows, np.uint64(wanted), psn, max_bytes
        )
        size, psn = divmod(int(coded), 128)
        sizes.append(size)
        seg = len(head) + stride
        packets += [out[at : min(at + seg, size)].tobytes() for at in range(0, size, seg)]
    return payload, packets, sizes


def said(packets):
    found = []
    for packet in packets:
        p = parse(packet)  # refuses a wrong length or checksum
        assert (p.message.flow, p.message.block, p.message.first_ttl) == (7, 5, 64)
        assert (p.inner.sport, p.inner.src) == (FLOW_PORT, BFIR_ADDR)
        found.append((p.message.psn, p.header.bitstring, p.message.flags, p.payload))
    return found


@pytest.mark.parametrize(
    "flags", [0, POLL, LAST, POLL | LAST, REPAIR | POLL, REPAIR | POLL | LAST]
)
@pytest.mark.parametrize("wanted", [0b1111, 0b0101, 0b1000, 0b0001])
def test_packets_are_those_asked_for(flags, wanted):
    bits = [1 << p | 1 << 40 for p in range(4)]
    payload, packets, _ = imposed(bits, wanted, flags=flags, n_payload=37)
    assert said(packets) == naive.impose(payload, 10, bits, wanted, flags)


def test_nothing_wanted_is_nothing_sent():
    assert imposed([1] * 4, 0)[1:] == ([], [0])


@pytest.mark.parametrize("n_psn", [1, 2, 63, 64])
def test_a_whole_block_asks_once_and_at_its_end(n_psn):
    _, packets, _ = imposed([3] * n_psn, 2**n_psn - 1, flags=POLL)
    assert [flags for _, _, flags, _ in said(packets)] == [0] * (n_psn - 1) + [POLL]


def test_the_poll_stands_on_the_last_packet_that_is_wanted():
    _, packets, _ = imposed([3] * 64, 1 << 63 | 1, flags=POLL)
    assert [(psn, flags) for psn, _, flags, _ in said(packets)] == [(0, 0), (63, POLL)]
    _, packets, _ = imposed([3] * 64, 0b110, flags=POLL)
    assert [(psn, flags) for psn, _, flags, _ in said(packets)] == [(1, 0), (2, POLL)]


@pytest.mark.parametrize("bsl", [1, 2, 3, 7])
def test_each_packet_has_a_bitstring_of_its_own(bsl):
    n_bits = 1 << (bsl + 5)
    bits = [1 << (p * (n_bits // 16)) | 1 << (n_bits - 1 - p) for p in range(16)]
    payload, packets, _ = imposed(bits, 2**16 - 1, bsl=bsl)
    assert said(packets) == naive.impose(payload, 10, bits, 2**16 - 1, POLL)


@pytest.mark.parametrize("n_fit", [1, 2, 3, 5, 64])
def test_pieces_end_between_packets(n_fit):
    size = 12 + 8 + 28 + 16 + 10
    payload, packets, sizes = imposed([1] * 9, 0b101111011, max_bytes=n_fit * size + 5)
    assert max(sizes) <= n_fit * size
    assert said(packets) == naive.impose(payload, 10, [1] * 9, 0b101111011, POLL)


def test_only_the_very_last_packet_may_be_short():
    _, packets, _ = imposed([1] * 3, 0b111, n_payload=21)
    assert [len(payload) for _, _, _, payload in said(packets)] == [10, 10, 1]
    assert BIFT_ID == 0x10000
