"""Known answers: each primitive in the one form that fanfold uses, against its own RFC."""

import hmac
from hashlib import sha256

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fanfold.seals.keys import KeyPair
from fanfold.seals.pairs import PairContext, PairKeys
from fanfold.seals.primitives import (
    BlockCipher,
    agree,
    derive,
    is_signed,
    mac_of,
    nonce_of,
    public_of_agreement,
    public_of_signing,
    sign,
    unwrap_key,
    wrap_key,
)

HEX = bytes.fromhex

# RFC 8032 section 7.1, tests 1 to 3: secret, public, message, signature.
ED25519 = (
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e3970"
        "1cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613"
        "d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760"
        "984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
)
# RFC 7748 section 5.2, first vector, and section 6.1: Bob's secret, Alice's public key.
X25519 = (
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
    ),
)
SMALL_ORDER = ("00" * 32, "01" + "00" * 31)
INFO = HEX("4f6465206f6e2061204772656369616e2055726e")


@pytest.mark.parametrize(("secret", "public", "message", "signature"), ED25519)
def test_signatures_are_those_of_rfc_8032(secret, public, message, signature):
    assert public_of_signing(HEX(secret)).hex() == public
    assert sign(HEX(secret), HEX(message)).hex() == signature
    assert is_signed(HEX(public), HEX(signature), HEX(message))
    assert not is_signed(HEX(public), HEX(signature), HEX(message) + b"\0")
    assert not is_signed(HEX(ED25519[0][1][:-2] + "00"), HEX(signature), HEX(message))
    for i in range(64):
        bent = bytearray(HEX(signature))
        bent[i] ^= 1
        assert not is_signed(HEX(public), bytes(bent), HEX(message))


@pytest.mark.parametrize(("secret", "public", "shared"), X25519)
def test_secrets_are_agreed_on_as_in_rfc_7748(secret, public, shared):
    assert agree(HEX(secret), HEX(public)).hex() == shared


def test_the_public_key_of_bob_is_that_of_rfc_7748():
    bob = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert public_of_agreement(HEX(X25519[1][0])).hex() == bob


@pytest.mark.parametrize("public", SMALL_ORDER)
def test_a_key_of_small_order_makes_no_secret_and_no_mac(public):
    """RFC 7748 section 6.1: a result of all zeros is refused."""
    assert agree(HEX(X25519[0][0]), HEX(public)) == b""
    own = KeyPair(b"\1" * 32, b"\2" * 32)
    other = own.public._replace(agreement=HEX(public))
    pair = PairKeys(own, is_sender=True)
    context = PairContext(2, 1, 9, 1)
    assert pair.mac(other, context, b"message") == bytes(16)
    assert not pair.is_from(other, context, b"message", bytes(16))
    assert not pair.is_from(other, context, b"message", mac_of(b"", b"message"))


def test_keys_are_derived_as_in_rfc_5869():
    """Appendix A.3: no salt, no info; its first 32 bytes are all that is asked for here."""
    okm = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    assert derive(b"\x0b" * 22, b"").hex() == okm[:64]


def test_macs_are_those_of_rfc_4231_cut_to_half():
    """Test cases 1 and 2 of HMAC-SHA-256."""
    assert mac_of(b"\x0b" * 20, b"Hi There").hex() == "b0344c61d8db38535ca8afceaf0bf12b"
    said = mac_of(b"Jefe", b"what do ya want for nothing?")
    assert said.hex() == "5bdcc146bf60754e6a042426089575c7"


def test_blocks_are_sealed_as_in_the_vectors_of_gcm():
    """McGrew and Viega, test case 14: key, nonce and block of zeros, AES-256."""
    cipher, room = BlockCipher(bytes(32)), bytearray(40)
    assert cipher.seal(0, 0, bytes(16), memoryview(room)) == 32
    want = "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"
    assert room[:32].hex() == want
    plain = bytearray(16)
    assert cipher.open(0, 0, memoryview(room)[:32], memoryview(plain)) == 16
    assert plain == bytes(16)


def test_a_block_opens_only_in_its_own_place_and_unchanged():
    cipher, room, plain = BlockCipher(b"\7" * 32), bytearray(36), bytearray(20)
    view = memoryview(room)
    assert cipher.seal(7, 3, b"twenty bytes of data", view) == 36
    assert cipher.open(7, 3, view, memoryview(plain)) == 20
    assert plain == b"twenty bytes of data"
    for flow, block in ((7, 2), (6, 3), (3, 7)):
        assert cipher.open(flow, block, view, memoryview(plain)) == -1
    assert BlockCipher(b"\6" * 32).open(7, 3, view, memoryview(plain)) == -1
    for n in (0, 15, 35):
        assert cipher.open(7, 3, view[:n], memoryview(plain)) == -1
    assert cipher.open(7, 3, view, memoryview(plain)[:19]) == -1
    for i in range(36):
        room[i] ^= 1
        assert cipher.open(7, 3, view, memoryview(plain)) == -1
        room[i] ^= 1


def test_a_block_is_sealed_and_opened_where_it_lies():
    cipher, apart, plain = BlockCipher(b"\7" * 32), bytearray(10_016), bytes(range(250)) * 40
    cipher.seal(7, 3, plain, memoryview(apart))
    room = memoryview(bytearray(plain) + bytearray(16))
    assert cipher.seal(7, 3, room[:10_000], room) == 10_016
    assert room == apart
    assert cipher.open(7, 3, room, room) == 10_000
    assert room[:10_000] == plain


def test_no_two_blocks_of_a_push_share_a_nonce():
    """A flow has 2^32 blocks; the manifest's flow is even, that of the data odd."""
    assert nonce_of(0xA1B2C3D4, 0x01020304).hex() == "a1b2c3d40102030400000000"
    places = [(f, b) for f in (0, 1, 2, 2**32 - 1) for b in (0, 1, 2, 2**32 - 1)]
    assert len({nonce_of(*place) for place in places}) == len(places)


def extract(label, ikm, suite, salt=b""):
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")


def expand(prk, label, info, n, suite):
    told = n.to_bytes(2) + b"HPKE-v1" + suite + label + info
    out, last = b"", b""
    while len(out) < n:
        last = hmac.digest(prk, last + told + bytes([len(out) // 32 + 1]), "sha256")
        out += last
    return out[:n]


def key_and_nonce(private, enc, info, aead_id, n_key):
    """RFC 9180 sections 4.1 and 5.1, base mode, X25519 and HKDF-SHA256."""
    kem, suite = b"KEM" + b"\0\x20", b"HPKE" + b"\0\x20" + b"\0\x01" + aead_id.to_bytes(2)
    public = public_of_agreement(private)
    prk = extract(b"eae_prk", agree(private, enc), kem)
    shared = expand(prk, b"shared_secret", enc + public, 32, kem)
    context = b"\0" + extract(b"psk_id_hash", b"", suite) + extract(b"info_hash", info, suite)
    secret = extract(b"secret", b"", suite, shared)
    key = expand(secret, b"key", context, n_key, suite)
    return key, expand(secret, b"base_nonce", context, 12, suite)


def test_the_slow_hpke_of_these_tests_is_that_of_rfc_9180():
    """Appendix A.1.1: X25519, HKDF-SHA256, AES-128-GCM, base mode, sequence number 0."""
    private = HEX("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    enc = HEX("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
    key, nonce = key_and_nonce(private, enc, INFO, 1, 16)
    assert key.hex() == "4531685d41d65f03dc48f6b8302c05b0"
    assert nonce.hex() == "56d890e5accaaf011cff4b7d"
    sealed = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a9"
    sealed += "6d8770ac83d07bea87e13c512a"
    opened = AESGCM(key).decrypt(nonce, HEX(sealed), b"Count-0")
    assert opened == b"Beauty is truth, truth beauty"


def test_a_wrapped_key_opens_by_rfc_9180_written_out():
    private, content = sha256(b"receiver").digest(), b"\x5a" * 32
    wrapped = wrap_key(public_of_agreement(private), content, b"fanfold wrap 1")
    assert len(wrapped) == 80
    key, nonce = key_and_nonce(private, wrapped[:32], b"fanfold wrap 1", 2, 32)
    assert AESGCM(key).decrypt(nonce, wrapped[32:], None) == content
    with pytest.raises(InvalidTag):
        AESGCM(key_and_nonce(private, wrapped[:32], b"other", 2, 32)[0]).decrypt(
            nonce, wrapped[32:], None
        )


def test_a_wrapped_key_is_for_one_receiver_and_one_use():
    private, other = sha256(b"receiver").digest(), sha256(b"another").digest()
    wrapped = wrap_key(public_of_agreement(private), b"\x5a" * 32, b"use")
    assert unwrap_key(private, wrapped, b"use") == b"\x5a" * 32
    assert unwrap_key(other, wrapped, b"use") == b""
    assert unwrap_key(private, wrapped, b"another use") == b""
    assert unwrap_key(private, wrapped[:-1], b"use") == b""
    assert unwrap_key(private, bytes(80), b"use") == b""


def test_the_mac_of_a_pair_is_the_formula_of_its_page():
    """docs/wire/envelope.md section 3, written out with the keys of RFC 7748."""
    sender = KeyPair(b"\1" * 32, HEX(X25519[1][0]))
    receiver = KeyPair(b"\2" * 32, b"\3" * 32)
    context = PairContext(flow=0x2A00, nonce=0xDEADBEEF, bfir_id=9, bfr_id=300)
    bound = HEX("00002a00 deadbeef 0009 012c")
    info = b"fanfold report 1" + bound + sender.public.agreement + receiver.public.agreement
    secret = agree(sender.agreement, receiver.public.agreement)
    key = hmac.digest(hmac.digest(bytes(32), secret, "sha256"), info + b"\1", "sha256")
    want = hmac.digest(key, b"message", "sha256")[:16]
    its = PairKeys(receiver, is_sender=False)
    assert its.mac(sender.public, context, b"message") == want
    assert PairKeys(sender, is_sender=True).is_from(receiver.public, context, b"message", want)


@pytest.mark.parametrize("field", ["flow", "nonce", "bfir_id", "bfr_id"])
def test_a_mac_is_of_one_push_one_sender_one_receiver(field):
    sender, receiver = (KeyPair(bytes([k]) * 32, bytes([k + 1]) * 32) for k in (1, 3))
    context = PairContext(4, 5, 6, 7)
    mac = PairKeys(receiver, is_sender=False).mac(sender.public, context, b"m")
    theirs = PairKeys(sender, is_sender=True)
    assert theirs.is_from(receiver.public, context, b"m", mac)
    assert not theirs.is_from(receiver.public, context._replace(**{field: 99}), b"m", mac)
    assert not theirs.is_from(receiver.public, context, b"n", mac)
    back = PairKeys(sender, is_sender=False)  # what is said the other way has another key
    assert back.mac(receiver.public, context, b"m") != mac
