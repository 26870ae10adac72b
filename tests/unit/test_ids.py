import pytest

from fanfold.errors import ConfigError
from fanfold.ids import MAX_NAMED, MAX_NODES, check_bfr_id, expand_nodes

KNOWN = [
    *(f"h{i}" for i in range(12)),
    "leaf1",
    "leaf2",
    *(f"node{i:02}" for i in range(21)),
    "r1n1",
    "r1n2",
    "r2n1",
    "r2n2",
    "gpu-7-8",
    "gpu-7",
    "gpu-8",
    "a1-ib",
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("h1", "h1"),
        ("h1,h3-5,leaf[1-2]", "h1 h3 h4 h5 leaf1 leaf2"),
        (" h1 , h2 ", "h1 h2"),
        ("node[01-03,20]", "node01 node02 node03 node20"),
        ("node[09-11]", "node09 node10 node11"),
        ("node08-10", "node08 node09 node10"),
        ("h[9-11]", "h9 h10 h11"),
        ("h3,h1-3", "h3 h1 h2"),  # order kept, each once
        ("r[1-2]n[1,2]", "r1n1 r1n2 r2n1 r2n2"),
        ("a[1]-ib", "a1-ib"),
        ("gpu-7-8", "gpu-7-8"),  # a name that exists wins over a range
        ("gpu-[7-8]", "gpu-7 gpu-8"),
    ],
)
def test_lists_expand_in_order(text, names):
    assert expand_nodes(text, KNOWN, "to") == tuple(names.split())


@pytest.mark.parametrize(
    "text",
    ["", ",", "h1,", "h1,,h2", "h[1", "h1]", "h]1[", "h[]", "h[1-]", "h[x]", "h[[1]]", "h[1]]"],
)
def test_bad_syntax_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        expand_nodes(text, KNOWN, "to")
    assert caught.value.field == "to"
    assert "node lists such as" in caught.value.allowed


@pytest.mark.parametrize("text", ["h5-3", "h[5-3]", f"h0-{MAX_NODES}"])
def test_falling_and_huge_ranges_are_refused(text):
    with pytest.raises(ConfigError, match="rising ranges"):
        expand_nodes(text, KNOWN, "to")


def test_product_of_brackets_is_bounded():
    assert (
        len(
            expand_nodes(
                "h[0-255]x[0-255]", {f"h{i}x{j}" for i in range(256) for j in range(256)}, "to"
            )
        )
        == 65536
    )
    with pytest.raises(ConfigError, match="at most 65536 names"):
        expand_nodes("h[0-256]x[0-255]", KNOWN, "to")


def test_unknown_name_is_named_with_what_is_known():
    with pytest.raises(ConfigError) as caught:
        expand_nodes("h1,h12", {"h1", "h2"}, "push.to")
    assert str(caught.value) == "push.to: got 'h12', allowed: h1, h2"


def test_long_lists_of_known_names_are_cut_short():
    with pytest.raises(ConfigError) as caught:
        expand_nodes("zebra", {f"n{i}" for i in range(MAX_NAMED + 3)}, "to")
    assert caught.value.allowed.endswith(" and 3 more")


def test_padding_is_not_dropped():
    with pytest.raises(ConfigError) as caught:
        expand_nodes("h[01-02]", KNOWN, "to")
    assert caught.value.got == "h01"


@pytest.mark.parametrize("value", [1, 65535])
def test_bfr_ids_in_range_pass(value):
    assert check_bfr_id(value, "f") == value


@pytest.mark.parametrize("value", [0, 65536, -1])
def test_bfr_ids_out_of_range_are_refused(value):
    with pytest.raises(ConfigError) as caught:
        check_bfr_id(value, "node[0].bfr_id")
    assert (caught.value.field, caught.value.allowed) == ("node[0].bfr_id", "1..65535")
