from math import prod

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.schemes.catalog import scheme_of
from fanfold.work.model import Experts, Gqa, Model, bytes_of, count_params, total_params
from fanfold.work.parallel import Degrees, layers_of, plan_iteration, wire_bytes
from fanfold.work.presets import preset_of
from fanfold.work.token_bytes import token_bytes
from fanfold.work.volumes import sent_by_parallelism

GPT = preset_of("gpt-3b-32")
TINY = Model(
    name="tiny",
    hidden=64,
    n_layers=6,
    vocab=100,
    attention=Gqa(n_heads=8, n_kv_heads=8, head_dim=8),
    inner=256,
    experts=Experts(n_routed=8, top_k=2, inner=128, layers=(1, 3, 5)),
)


def near(value: int, said: int, percent: int) -> bool:
    return abs(value - said) * 100 <= percent * said


def test_gpt_3b_on_32_gpus_moves_what_was_measured():
    plan = plan_iteration(GPT.model, GPT.degrees)
    sent = sent_by_parallelism(plan)
    assert near(sent["TP"], 85_000_000_000, 5)
    assert near(sent["PP"], 1_000_000_000, 5)
    assert near(sent["DP"], 741_000_000, 1)
    assert sent.keys() == {"TP", "PP", "DP"}
    messages = {t.n_bytes for t in plan if t.parallelism in ("TP", "PP")}
    assert messages == {125_829_120}


def test_stages_inside_send_five_percent_less_than_measured_at_most():
    plan = plan_iteration(GPT.model, GPT.degrees)
    (inside,) = [t.sent_bytes() for t in plan if t.parallelism == "TP" and t.stage == 1]
    assert near(inside, 85_000_000_000, 5)


def test_ranks_of_eight_gpus_by_hand():
    """Two stages of two replicas of two shards; the shard counts fastest."""
    degrees = Degrees(gpus=8, tp=2, pp=2)
    plan = plan_iteration(preset_of("llama3-70b").model, degrees)
    groups = {(t.parallelism, t.name, t.stage): t.groups.tolist() for t in plan}
    assert groups["TP", "layers", 0] == [[0, 1], [2, 3]]
    assert groups["TP", "layers", 1] == [[4, 5], [6, 7]]
    assert groups["PP", "activations", 0] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups["PP", "gradients", 1] == [[4, 0], [5, 1], [6, 2], [7, 3]]
    assert groups["DP", "dense gradients", -1] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert ("TP", "embedding", 0) in groups
    assert ("TP", "head", 1) in groups


def test_a_group_is_a_collective_that_schemes_can_plan():
    plan = plan_iteration(TINY, Degrees(gpus=16, tp=2, pp=2, ep=4, zero=1))
    for transfer in plan:
        work = transfer.collective(-1)
        assert work.hosts == tuple(transfer.groups[-1].tolist())
        for name in ("unicast", "direct"):
            if work.kind in scheme_of(name).kinds:
                scheme_of(name).build(work)
    kinds = {t.collective(0).kind for t in plan if t.parallelism != "DP"}
    assert kinds == {"all_reduce", "broadcast", "all_to_all"}


def test_experts_of_eight_gpus_by_hand():
    degrees = Degrees(gpus=8, tp=2, ep=4, n_micro=3, dispatch_dtype="fp8")
    plan = {(t.parallelism, t.name): t for t in plan_iteration(TINY, degrees)}
    assert plan["EP", "dispatch"].groups.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert plan["DP", "experts gradients"].groups.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    # Half of 4096 tokens a rank, two copies of each, 64 values in fp8 and one scale.
    assert plan["EP", "dispatch"].n_bytes == 2048 * 2 * (64 + 4)
    assert plan["EP", "combine"].n_bytes == 2048 * 2 * 128
    assert plan["EP", "dispatch"].calls == 3 * 3
    assert plan["EP", "gradients"].calls == 2 * 3 * 3
    # Six layers of attention, three dense MLPs, forward and backward, three micro-batches.
    assert plan["TP", "layers"].calls == 2 * (6 + 3) * 3


def test_recomputed_layers_send_half_as_much_again():
    degrees = Degrees(gpus=8, tp=2, ep=4, n_micro=3)
    plain = {(t.parallelism, t.name): t.calls for t in plan_iteration(TINY, degrees)}
    again = msgspec.structs.replace(degrees, recompute=True)
    more = {(t.parallelism, t.name): t.calls for t in plan_iteration(TINY, again)}
    assert more["TP", "layers"] * 2 == plain["TP", "layers"] * 3
    assert more["EP", "dispatch"] == 2 * plain["EP", "dispatch"]
    assert more["EP", "gradients"] == plain["EP", "gradients"]


@pytest.mark.parametrize(
    ("zero", "kinds"),
    [
        (0, [("all_reduce", 1)]),
        (1, [("reduce_scatter", 1), ("all_gather", 1)]),
        (2, [("reduce_scatter", 1), ("all_gather", 1)]),
        (3, [("reduce_scatter", 5), ("all_gather", 10)]),
    ],
)
def test_each_step_of_zero_is_as_its_paper_says(zero, kinds):
    degrees = Degrees(gpus=8, zero=zero, n_micro=5)
    plan = plan_iteration(preset_of("llama3-70b").model, degrees)
    assert [(t.kind, t.calls) for t in plan] == kinds
    assert {t.size for t in plan} == {8}


def test_zero_1_sends_as_much_as_an_all_reduce():
    model = preset_of("llama3-70b").model
    sent = [
        sum(t.sent_bytes() for t in plan_iteration(model, Degrees(gpus=8, zero=zero)))
        for zero in (0, 1)
    ]
    assert near(sent[1], sent[0], 1)


def test_sequence_parallelism_sends_as_much_and_a_share_to_the_next_stage():
    degrees = Degrees(gpus=8, tp=4, pp=2)
    model = preset_of("llama3-70b").model
    plain = sent_by_parallelism(plan_iteration(model, degrees))
    split = msgspec.structs.replace(degrees, sequence_parallel=True)
    shared = sent_by_parallelism(plan_iteration(model, split))
    assert shared["TP"] == plain["TP"]
    assert shared["PP"] * 4 == plain["PP"]


@pytest.mark.parametrize(
    ("kind", "n", "sent"),
    [
        ("all_reduce", 4, 1500),
        ("all_gather", 4, 750),
        ("reduce_scatter", 4, 750),
        ("all_to_all", 4, 750),
        ("broadcast", 4, 1000),
        ("broadcast", 1, 0),
        ("all_reduce", 1, 0),
        ("point_to_point", 2, 1000),
        ("all_reduce", 3, 1334),
    ],
)
def test_bytes_of_one_rank_on_the_wire(kind, n, sent):
    assert wire_bytes(kind, 1000, n) == sent


@pytest.mark.parametrize(
    ("degrees", "field"),
    [
        (Degrees(gpus=9, tp=2), "gpus"),
        (Degrees(gpus=3, tp=3), "tp"),
        (Degrees(gpus=7, pp=7), "pp"),
        (Degrees(gpus=4, pp=2, zero=3), "zero"),
        (Degrees(gpus=16, ep=16), "ep"),
        (Degrees(gpus=4, ep=8), "ep"),
    ],
)
def test_degrees_that_do_not_fit_are_named(degrees, field):
    with pytest.raises(ConfigError) as caught:
        plan_iteration(TINY, degrees)
    assert caught.value.field == field


def test_a_dense_model_has_no_experts_to_spread():
    with pytest.raises(ConfigError, match="ep: got 2"):
        plan_iteration(preset_of("llama3-70b").model, Degrees(gpus=8, ep=2))


def test_layers_left_over_go_to_the_first_stages():
    stages = layers_of(preset_of("deepseek-v3").model, Degrees(gpus=16, pp=16))
    assert [len(stage) for stage in stages] == [4] * 13 + [3] * 3
    assert [i for stage in stages for i in stage] == list(range(61))


def test_a_token_of_deepseek_v3_is_7392_bytes():
    assert token_bytes(7168, "fp8") == 7392
    assert token_bytes(7168, "bf16") == 14_336
    assert token_bytes(100, "fp8") == 104


powers = st.sampled_from((1, 2, 4, 8))


@given(tp=powers, dp=powers, ep=powers, pp=st.integers(1, 6), zero=st.integers(0, 3))
def test_groups_part_the_ranks_and_bytes_are_kept(tp, dp, ep, pp, zero):
    assume((dp * tp) % ep == 0 and not (zero == 3 and pp > 1))
    degrees = Degrees(gpus=tp * dp * pp, tp=tp, pp=pp, ep=ep, zero=zero)
    plan = plan_iteration(TINY, degrees)
    for t in plan:
        flat = t.groups.ravel()
        assert np.unique(flat).size == flat.size, "a rank is in two groups"
        per_stage = tp * dp
        if t.parallelism in ("TP", "EP"):
            first = t.stage * per_stage
            assert sorted(flat.tolist()) == list(range(first, first + per_stage))
        if t.parallelism == "DP":
            assert sorted(flat.tolist()) == list(range(degrees.gpus))
        assert t.sent_bytes() >= 0
    # What all shards of one replica hold is the model, rounded up by less than a share each.
    if dp > 1 and zero == 0:
        experts = count_params(TINY)["experts"] if ep > 1 else 0
        dense = next(t for t in plan if t.name == "dense gradients")
        whole = bytes_of(total_params(TINY) - experts, "bf16")
        shards = tp * pp
        assert whole <= dense.n_bytes * shards < whole + 2 * shards


@given(n=st.integers(1, 12), kind=st.sampled_from(("all_gather", "reduce_scatter")))
def test_an_all_reduce_is_a_scatter_and_a_gather(n, kind):
    n_bytes = prod((n, 1000))
    assert wire_bytes("all_reduce", n_bytes, n) == 2 * wire_bytes(kind, n_bytes, n)
