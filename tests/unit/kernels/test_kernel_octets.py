import naive
import numpy as np
import pytest

from fanfold.kernels import octets
from fanfold.kernels.replicate import bit, lowest_bit, n_bits
from fanfold.streams import stream

RNG = stream(1, "tests/octets")
EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


def octets_of(n: int) -> np.ndarray:
    return RNG.integers(0, 256, n, np.uint8)


@pytest.mark.parametrize("k", range(64))
def test_every_single_bit_is_found(k):
    assert int(bit(k)) == 1 << k
    assert lowest_bit(np.uint64(1 << k)) == k
    assert lowest_bit(np.uint64(2**64 - (1 << k))) == k
    assert n_bits(np.uint64(2**64 - (1 << k))) == 64 - k


def test_words_of_any_kind_are_counted():
    for word in [*EDGES[1:], *(int(w) for w in RNG.integers(1, 2**64, 60, np.uint64))]:
        assert lowest_bit(np.uint64(word)) == naive.lowest_bit(word)
        assert n_bits(np.uint64(word)) == naive.n_bits(word)
    assert n_bits(np.uint64(0)) == 0


@pytest.mark.parametrize("a", EDGES)
@pytest.mark.parametrize("b", EDGES)
def test_sums_and_products_go_round_at_64_bits(a, b):
    assert int(octets.plus(np.uint64(a), np.uint64(b))) == (a + b) % naive.WORD
    assert int(octets.times(np.uint64(a), np.uint64(b))) == a * b % naive.WORD


def test_integers_are_in_network_order():
    buf = octets_of(40)
    for at in range(30):
        assert octets.read_u16(buf, at) == int.from_bytes(buf[at : at + 2].tobytes(), "big")
        assert octets.read_u32(buf, at) == int.from_bytes(buf[at : at + 4].tobytes(), "big")
        assert int(octets.read_word(buf, at)) == int.from_bytes(
            buf[at : at + 8].tobytes(), "big"
        )


@pytest.mark.parametrize("value", [0, 1, 0x1234, 0xFFFF, 0x12345678, 0xFFFFFFFF, -1, 2**40 + 5])
def test_stores_keep_the_low_bits_and_touch_nothing_else(value):
    for write, n in ((octets.write_u16, 2), (octets.write_u32, 4)):
        buf = np.full(12, 0xEE, np.uint8)
        write(buf, 3, value)
        wanted = (value % 256**n).to_bytes(n, "big")
        assert buf.tobytes() == b"\xee" * 3 + wanted + b"\xee" * (9 - n)


@pytest.mark.parametrize("n_words", [1, 2, 4, 64])
def test_bitstrings_are_read_and_written_back(n_words):
    buf = octets_of(8 * n_words + 5)
    bits = np.zeros(n_words + 1, np.uint64)
    assert octets.read_bits(buf, 5, n_words, bits) == 1
    assert bits[:n_words].tolist() == naive.words_of(buf[5:].tobytes())
    out = np.zeros_like(buf)
    octets.write_bits(out, 5, n_words, bits)
    assert out[5:].tobytes() == buf[5:].tobytes()
    assert not out[:5].any()
    assert octets.read_bits(np.zeros(600, np.uint8), 3, n_words, bits) == 0


@pytest.mark.parametrize("place", [0, 7, 8, 15])
def test_one_bit_in_any_word_makes_a_bitstring_not_zero(place):
    buf = np.zeros(16, np.uint8)
    buf[place] = 1
    assert octets.read_bits(buf, 0, 2, np.zeros(2, np.uint64)) == 1


@pytest.mark.parametrize("fill", [None, 0, 0xFF])
def test_checksum_is_that_of_the_book(fill):
    buf = octets_of(700)
    if fill is not None:
        buf[:] = fill
    for at in range(5):
        for n in [*range(40), 511, 512, 690]:
            got = octets.sum_octets(buf, at, n)
            assert got == naive.sum_octets(buf[at : at + n].tobytes())


@pytest.mark.parametrize("total", [0, 1, 0xFFFF, 0x10000, 0x1FFFF, 0xFFFFFFFF, 2**47])
def test_partial_sums_are_folded_round_the_end(total):
    folded = octets.fold_sum(total)
    assert 0 <= folded <= 0xFFFF
    assert folded % 0xFFFF == total % 0xFFFF
    assert (folded == 0) == (total == 0)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63])
def test_copies_end_where_they_should(n):
    src, dst = octets_of(80), np.full(80, 0xEE, np.uint8)
    octets.copy_octets(dst, 3, src, 6, n)
    assert dst.tobytes() == b"\xee" * 3 + src[6 : 6 + n].tobytes() + b"\xee" * (77 - n)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 100])
@pytest.mark.parametrize("at", [0, 3, 8, 16])
def test_copies_past_the_caches_end_where_they_should(n, at):
    src, dst = octets_of(120), np.full(160, 0xEE, np.uint8)
    octets.stream_octets(dst, at, src, 5, n)
    assert dst.tobytes() == b"\xee" * at + src[5 : 5 + n].tobytes() + b"\xee" * (160 - at - n)


@pytest.mark.parametrize("shift", [1, 3, 8, 20])
def test_a_copy_down_over_itself_is_whole(shift):
    buf = octets_of(100)
    moved = buf[shift : shift + 60].tobytes()
    octets.copy_octets(buf, 0, buf, shift, 60)
    assert buf[:60].tobytes() == moved
