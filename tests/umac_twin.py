"""UMAC by Python integers, as RFC 4418 section 5 has it, and trailers made of it."""

import struct

from fanfold.seals.umac import N_HASHES, UmacKeys, aes_words, umac_keys

P36, P64 = 2**36 - 5, 2**64 - 59


def twin(keys: UmacKeys, message: bytes) -> tuple[int, ...]:
    """The RFC's text, section 5, by Python integers."""
    out = []
    for t in range(N_HASHES):
        k64, *inner, mask = keys.later[6 * t : 6 * t + 6]
        values = []
        for at in range(0, max(len(message), 1), 1024):
            part = message[at : at + 1024]
            padded = part.ljust(max(-(-len(part) // 32), 1) * 32, b"\0")
            m = struct.unpack(f"<{len(padded) // 4}I", padded)
            k = keys.first[4 * t :]
            y = 8 * len(part)
            for g in range(0, len(m), 8):
                for j in range(g, g + 4):
                    y += (m[j] + k[j]) % 2**32 * ((m[j + 4] + k[j + 4]) % 2**32)
            values.append(y % 2**64)
        y = values[0]
        if len(values) > 1:
            y = 1
            for m64 in values:
                if m64 >= 2**64 - 2**32:
                    y = (k64 * y + P64 - 1) % P64
                    y = (k64 * y + m64 - 59) % P64
                else:
                    y = (k64 * y + m64) % P64
        words = struct.unpack("!4H", y.to_bytes(8, "big"))
        total = sum(a * b for a, b in zip(words, inner, strict=True))
        out.append(total % P36 % 2**32 ^ mask)
    return tuple(out)


def sealed(key: bytes, session: int, counter: int, packet: bytes, covered: int) -> bytes:
    """A packet with its trailer, docs/wire/link-keys.md; covered: so many octets of it."""
    keys = umac_keys(key)
    nonce = struct.pack("!QI", counter, len(packet))
    mask = struct.unpack("!3I", aes_words(keys.pad, nonce.ljust(16, b"\0"))[:12])
    words = (h ^ m for h, m in zip(twin(keys, packet[:covered]), mask, strict=True))
    return packet + struct.pack("!IQ3I", session, counter, *words)
