"""The internet checksum, RFC 1071."""


def ones_sum(buf: bytes) -> int:
    """Ones' complement sum of big-endian 16-bit words; 0xFFFF stands for both zeros.

    2**16 is 1 modulo 0xFFFF, so the sum of the words is the whole number modulo 0xFFFF.
    An odd last byte is padded with zero (RFC 1071 section 1).
    """
    number = int.from_bytes(buf, "big")
    if len(buf) % 2:
        number <<= 8
    return number % 0xFFFF or 0xFFFF


def internet_checksum(buf: bytes) -> int:
    """Complement of the sum, 0..0xFFFE; some word of `buf` must not be zero."""
    return 0xFFFF - ones_sum(buf)


def put_checksum(buf: bytes, at: int) -> bytes:
    """The same bytes with the checksum of all of them at an even place, where two zeros are."""
    octets = internet_checksum(buf).to_bytes(2, "big")
    return buf[:at] + octets + buf[at + 2 :]
