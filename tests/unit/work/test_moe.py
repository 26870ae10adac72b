import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.work.gate import GATES, check_groups, draw_choices, expert_loads
from fanfold.work.gate_trace import load_choices
from fanfold.work.model import Experts
from fanfold.work.moe import (
    bits_of,
    build_dispatch,
    count_copies,
    members_of,
    place_experts,
    place_tokens,
)
from fanfold.work.presets import preset_of

V3 = preset_of("deepseek-v3").model.experts
SMALL = Experts(n_routed=16, top_k=4, inner=8, layers=(0,), n_groups=4, top_groups=2)


def sets_of(words):
    found = [set() for _ in words]
    for row, member in zip(*members_of(words), strict=True):
        found[row].add(int(member))
    return found


def naive_counts(choices, expert_rank, token_rank, per_node):
    """Copies by expert, by rank, by node, and different sets: with sets, token by token."""
    by_expert = by_rank = by_node = 0
    different = set()
    for row, own in zip(choices.tolist(), token_rank.tolist(), strict=True):
        ranks = [int(expert_rank[e]) for e in row]
        far = set(ranks) - {own}
        by_expert += sum(rank != own for rank in ranks)
        by_rank += len(far)
        by_node += len({rank // per_node for rank in ranks} - {own // per_node})
        different |= {frozenset(far)} if far else set()
    return by_expert, by_rank, by_node, len(different)


@pytest.mark.parametrize("gate", GATES)
def test_tokens_times_top_k_are_the_loads_of_experts(gate):
    choices = draw_choices(stream(3, "gate"), gate, V3, 5000)
    assert choices.shape == (5000, 8)
    assert (np.diff(choices, axis=1) > 0).all(), "distinct and rising"
    loads = expert_loads(choices, V3.n_routed)
    assert loads.shape == (256,)
    assert loads.sum() == 5000 * 8


@pytest.mark.parametrize("gate", GATES)
def test_a_seed_and_a_name_decide_what_is_drawn(gate):
    same = [draw_choices(stream(3, "gate"), gate, SMALL, 50) for _ in range(2)]
    assert (same[0] == same[1]).all()
    other = draw_choices(stream(4, "gate"), gate, SMALL, 50)
    assert (same[0] != other).any()


@pytest.mark.parametrize("gate", GATES)
def test_a_token_chooses_alike_in_more_company(gate, monkeypatch):
    few = draw_choices(stream(3, "gate"), gate, SMALL, 50)
    monkeypatch.setattr("fanfold.work.gate.BLOCK_TOKENS", 7)
    many = draw_choices(stream(3, "gate"), gate, SMALL, 90)
    assert (few == many[:50]).all()


def test_a_uniform_gate_loads_all_alike_and_a_zipf_gate_does_not():
    n = 20_000
    even = expert_loads(draw_choices(stream(1, "g"), "uniform", SMALL, n), 16)
    skewed = expert_loads(draw_choices(stream(1, "g"), "zipf", SMALL, n), 16)
    flat = expert_loads(draw_choices(stream(1, "g"), "zipf", SMALL, n, 0), 16)
    mean = n * 4 // 16
    for loads in (even, flat):
        assert abs(loads - mean).max() * 20 < mean
    assert skewed.max() > 2 * mean > 4 * skewed.min()
    steep = expert_loads(draw_choices(stream(1, "g"), "zipf", SMALL, n, 3000), 16)
    assert steep.min() < skewed.min()


def test_distinct_ranks_are_as_many_as_chance_says():
    """64 (1 - C(252, 8) / C(256, 8)) = 7.57 of 64 ranks with 4 experts each, top 8."""
    choices = draw_choices(stream(1, "g"), "uniform", V3, 20_000)
    hit = (np.diff(choices // 4, axis=1) > 0).sum() + len(choices)
    miss = 1.0
    for i in range(8):
        miss *= (252 - i) / (256 - i)
    assert abs(hit / 20_000 - 64 * (1 - miss)) < 0.02


def test_a_limited_gate_keeps_to_its_groups():
    choices = draw_choices(stream(1, "g"), "node-limited", V3, 5000)
    groups = [len(set(row)) for row in (choices // 32).tolist()]
    assert max(groups) == 4
    free = draw_choices(stream(1, "g"), "uniform", V3, 5000)
    assert max(len(set(row)) for row in (free // 32).tolist()) > 4


@pytest.mark.parametrize(
    ("change", "field"),
    [({"n_groups": 3}, "n_groups"), ({"top_groups": 5}, "top_groups"), ({"top_k": 9}, "top_g")],
)
def test_groups_that_do_not_fit_are_named(change, field):
    fields = {"n_routed": 16, "top_k": 4, "inner": 8, "layers": (0,), "n_groups": 4}
    with pytest.raises(ConfigError) as caught:
        check_groups(Experts(**(fields | {"top_groups": 2} | change)))
    assert caught.value.field.startswith(field)


def test_a_gate_or_a_skew_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="gate: got 'best'"):
        draw_choices(stream(1, "g"), "best", SMALL, 3)
    for skew in (-1, 10_001):
        with pytest.raises(ConfigError, match="skew"):
            draw_choices(stream(1, "g"), "zipf", SMALL, 3, skew)


def test_four_tokens_counted_by_hand():
    """Eight experts on four ranks, two ranks a node; a token on each rank.

    token 0 on rank 0: experts 0 1 -> rank 0: stays.
    token 1 on rank 1: experts 0 3 -> ranks 0 1: one copy, inside the node.
    token 2 on rank 2: experts 0 2 -> ranks 0 1: two copies, one to the other node.
    token 3 on rank 3: experts 6 7 -> rank 3: stays.
    """
    choices = np.array([[0, 1], [0, 3], [0, 2], [6, 7]])
    made = build_dispatch(choices, place_experts(8, 4), place_tokens(4, 4), 4, 2)
    assert made.rank_bits.tolist() == [[1], [3], [3], [8]]
    assert made.far_bits.tolist() == [[0], [1], [3], [0]]
    assert made.node_bits.tolist() == [[1], [1], [1], [2]]
    counts = count_copies(made, 100, 200, 64)
    assert (counts.n_tokens, counts.n_choices, counts.n_far_tokens) == (4, 8, 2)
    assert (counts.copies_by_expert, counts.copies_by_rank, counts.copies_by_node) == (3, 3, 1)
    assert (counts.inside_copies, counts.copies_multicast, counts.n_sets) == (2, 2, 2)
    assert (counts.dispatch_bytes_by_rank, counts.dispatch_bytes_multicast) == (300, 200)
    assert (counts.combine_bytes_by_rank, counts.combine_bytes_folded) == (600, 400)
    assert counts.packets == 2
    assert counts.header_bytes == 2 * (12 + 8)
    assert counts.header_share_ppb == 40 * 10**9 // 240


def test_nine_of_256_experts_have_the_header_share_of_the_drafts():
    """A BitString of 256 bits is 44 bytes: 0.6 % of 7392 bytes, 14.7 % of 256."""
    choices = draw_choices(stream(1, "g"), "uniform", V3, 100)
    shared = np.full((100, 1), 256)  # one expert of all tokens
    where = np.append(place_experts(256, 256), 255)
    tokens = place_tokens(100, 256)
    made = build_dispatch(np.hstack((choices, shared)), where, tokens, 256, 8)
    assert np.bitwise_count(made.rank_bits).sum(axis=1).max() == 9
    shares = [count_copies(made, n, n, 256).header_share_ppb for n in (7392, 256)]
    assert shares == [44 * 10**9 // 7436, 44 * 10**9 // 300]


def test_a_packet_leaves_for_each_set_that_its_ranks_touch():
    choices = np.array([[0, 63, 64, 255]])
    made = build_dispatch(choices, place_experts(256, 256), np.array([7]), 256, 8)
    packets = {bits: count_copies(made, 7392, 1, bits, 4096).packets for bits in (64, 128, 256)}
    assert packets == {64: 3 * 2, 128: 2 * 2, 256: 2}
    with pytest.raises(ConfigError, match="bsl: got 100"):
        count_copies(made, 7392, 1, 100)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: place_experts(256, 48), "ep"),
        (lambda: place_experts(256, 0), "ep"),
        (
            lambda: build_dispatch(
                np.array([[0]]), np.array([0]), np.array([0]), n_ranks=8, ranks_per_node=3
            ),
            "ranks_per_node",
        ),
    ],
)
def test_ranks_that_do_not_divide_are_named(call, field):
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.field == field


@given(
    seed=st.integers(0, 2**32),
    gate=st.sampled_from(GATES),
    ranks=st.sampled_from((1, 2, 4, 8, 16)),
    per_node=st.sampled_from((1, 2, 4)),
    n_tokens=st.integers(1, 40),
)
def test_no_destination_is_lost_and_none_is_made_up(seed, gate, ranks, per_node, n_tokens):
    per_node = min(per_node, ranks)
    choices = draw_choices(stream(seed, "g"), gate, SMALL, n_tokens)
    where, tokens = place_experts(16, ranks), place_tokens(n_tokens, ranks)
    made = build_dispatch(choices, where, tokens, ranks, per_node)
    want = [set(row) for row in where[choices].tolist()]
    assert sets_of(made.rank_bits) == want
    own = tokens.tolist()
    assert sets_of(made.far_bits) == [w - {o} for w, o in zip(want, own, strict=True)]
    assert sets_of(made.node_bits) == [{r // per_node for r in w} for w in want]
    counts = count_copies(made, 10, 20, 64)
    expected = naive_counts(choices, where, tokens, per_node)
    told = (counts.copies_by_expert, counts.copies_by_rank, counts.copies_by_node)
    assert (*told, counts.n_sets) == expected
    assert counts.copies_by_node <= counts.copies_by_rank <= counts.copies_by_expert
    assert counts.copies_multicast == counts.n_far_tokens <= counts.copies_by_rank
    assert counts.inside_copies + counts.copies_by_node == counts.copies_by_rank


@given(st.lists(st.sets(st.integers(0, 199), min_size=3, max_size=3), min_size=1, max_size=9))
def test_words_and_members_are_one_another(sets):
    words = bits_of(np.array([sorted(s) for s in sets]), 200)
    assert words.shape == (len(sets), 4)
    assert sets_of(words) == sets
    row = [sum(int(w) << (64 * i) for i, w in enumerate(line)) for line in words]
    assert row == [sum(1 << m for m in s) for s in sets]


def test_too_many_tokens_at_once_are_refused(monkeypatch):
    monkeypatch.setattr("fanfold.work.moe.MAX_CELLS", 8)
    where, four = np.array([0]), np.zeros((4, 1), np.int64)
    build_dispatch(four, where, place_tokens(4, 2), 2, 1)
    with pytest.raises(ConfigError, match="tokens: got 5, allowed: up to 4"):
        build_dispatch(np.zeros((5, 1), np.int64), where, place_tokens(5, 2), 2, 1)


def test_tokens_are_spread_as_evenly_as_may_be():
    loads = np.bincount(place_tokens(10, 4))
    assert sorted(loads.tolist()) == [2, 2, 3, 3]
    assert place_tokens(0, 4).size == 0


def test_a_trace_is_read_from_both_kinds_of_file(tmp_path):
    choices = np.array([[5, 1], [0, 3], [7, 2]])
    np.savez(tmp_path / "t.npz", experts=choices)
    rows = ", ".join(f"({t}, {e})" for t, row in enumerate(choices.tolist()) for e in row)
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT * FROM (VALUES {rows}) v(token, expert)) TO '{tmp_path}/t.parquet'"
        )
    for suffix in (".npz", ".parquet"):
        found = load_choices(tmp_path / f"t{suffix}", 8)
        assert found.tolist() == [[1, 5], [0, 3], [2, 7]]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"other": np.zeros((2, 2), np.int64)}, "experts: got"),
        ({"experts": np.zeros(3, np.int64)}, "shape"),
        ({"experts": np.zeros((0, 2), np.int64)}, "shape"),
        ({"experts": np.array([[0.0, 1.0]])}, "whole numbers"),
        ({"experts": np.array([[0, 8]])}, "got 8"),
        ({"experts": np.array([[-1, 2]])}, "got -1"),
        ({"experts": np.array([[0, 1], [2, 2]])}, "token 1"),
        ({"experts": np.array([[None, 1]], object)}, "plain arrays"),
    ],
)
def test_a_wrong_trace_names_what_is_wrong(held, said, tmp_path):
    np.savez(tmp_path / "t.npz", **held)
    with pytest.raises(ConfigError, match=said):
        load_choices(tmp_path / "t.npz", 8)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 AS token", "columns token, expert"),
        ("SELECT 0 AS token, 'a' AS expert", "expert: got"),
        ("SELECT 1 AS token, 1 AS expert", "token: got"),
        ("SELECT 0 AS token, 1 AS expert WHERE 1 > 2", "token: got"),
        ("SELECT NULL::INT AS token, 1 AS expert", "none null"),
        ("SELECT * FROM (VALUES (0, 1), (0, 2), (1, 3)) v(token, expert)", "1 at token 1"),
    ],
)
def test_a_wrong_table_names_what_is_wrong(query, said, tmp_path):
    with duckdb.connect() as db:
        db.execute(f"COPY ({query}) TO '{tmp_path}/t.parquet'")
    with pytest.raises(ConfigError, match=said):
        load_choices(tmp_path / "t.parquet", 8)


@pytest.mark.parametrize("name", ["none.npz", "t.csv", "broken.npz", "broken.parquet"])
def test_a_trace_that_cannot_be_read_is_one_line(name, tmp_path):
    if name.startswith("broken"):
        (tmp_path / name).write_bytes(b"not what it says")
    with pytest.raises(ConfigError, match="trace: got"):
        load_choices(tmp_path / name, 8)
