"""Golden vectors, derived by hand, against every codec."""

import pytest
from vec_file import VECTORS, Vector, load_all
from wire_oracle import tables

from fanfold.errors import WireError
from fanfold.wire.catalog import CATALOG

LOADED = load_all()
SOUND = [vector for vector in LOADED if vector.refused is None]
REFUSED = [vector for vector in LOADED if vector.refused is not None]
CODECS = {codec.name: codec for codec in CATALOG}


def test_every_header_has_a_vector_that_names_all_its_fields() -> None:
    assert {vector.codec for vector in SOUND} == CODECS.keys()
    for vector in SOUND:
        value = CODECS[vector.codec].decode(vector.buf)
        names = set(value.__struct_fields__) - {"rows"}
        assert names <= vector.fields.keys(), vector.name


def test_vectors_lie_in_the_folder_of_their_codec() -> None:
    assert {vector.name.split("/")[0] for vector in LOADED} == CODECS.keys()
    assert all(vector.name.startswith(f"{vector.codec}/") for vector in LOADED)
    assert len(list(VECTORS.rglob("*.vec"))) == len(LOADED)


@pytest.mark.parametrize("vector", SOUND, ids=lambda vector: vector.name)
def test_vector_decodes_to_its_fields(vector: Vector) -> None:
    value = CODECS[vector.codec].decode(vector.buf)
    assert {name: getattr(value, name) for name in vector.fields} == vector.fields
    rows = tuple((row.psn, row.lacking) for row in getattr(value, "rows", ()))
    assert rows == vector.rows


@pytest.mark.parametrize("vector", SOUND, ids=lambda vector: vector.name)
def test_vector_is_written_byte_for_byte(vector: Vector) -> None:
    codec = CODECS[vector.codec]
    assert codec.encode(codec.decode(vector.buf)) == vector.buf


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector.name)
def test_vector_is_refused_with_its_reason(vector: Vector) -> None:
    with pytest.raises(WireError) as caught:
        CODECS[vector.codec].decode(vector.buf)
    assert caught.value.reason == vector.refused
    assert caught.value.header


def test_every_codec_has_a_table() -> None:
    assert all(tables(codec.module) for codec in CATALOG)
