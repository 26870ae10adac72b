"""Workloads beside training, dispatch and pushes: figures by hand, and twins that count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.errors import ConfigError
from fanfold.work.budgets import BUDGET_PS, judge
from fanfold.work.catalog import workload_of
from fanfold.work.checkpoint import checkpoint_bytes, write_ways
from fanfold.work.federated import centralised, decentralised, semi_decentralised
from fanfold.work.incast import direct, folded, tree
from fanfold.work.inter_dc import RTT_PS, wan_pushes
from fanfold.work.model import total_params
from fanfold.work.parallel import Degrees, plan_iteration
from fanfold.work.presets import preset_of
from fanfold.work.push import Region
from fanfold.work.roles import STATUS_BYTES, traffic_by_role
from fanfold.work.serving import cache_bytes, sync_ways
from fanfold.work.steps import bursts_of, compute_ps
from fanfold.work.volumes import WorkloadRequest

RATE = 8 * 10**12
"""One byte takes one ps."""
GB, MS = 10**9, 10**9
LLAMA = preset_of("llama3-70b").model


def rows(name, model=LLAMA, **more):
    return workload_of(name).rows(WorkloadRequest(model, Degrees(gpus=64, tp=8, pp=2), **more))


def test_sizes_of_the_draft():
    """draft-ai-traffic-00, section 3.2: 62.5 MB to 1620 GB."""
    by_size = {row["parameters"]: row for row in rows("sizes")}
    assert by_size[125_000_000]["int4_bytes"] == 62_500_000
    assert by_size[405_000_000_000]["fp32_bytes"] == 1620 * GB


@pytest.mark.parametrize(
    ("kind", "least_ps"), [("DP", 100 * MS), ("PP", 10 * MS), ("EP", MS), ("TP", MS // 100)]
)
def test_a_latency_passes_up_to_its_budget(kind, least_ps):
    assert BUDGET_PS[kind] == least_ps
    assert judge(kind, least_ps).passes
    assert not judge(kind, least_ps + 1).passes
    assert judge(kind, least_ps + 1).slack_ps == -1


def test_verdicts_of_one_latency():
    told = {row["parallelism"]: row["verdict"] for row in rows("budgets", latency_ps=5 * MS)}
    assert told == {"DP": "pass", "PP": "pass", "EP": "fail", "TP": "fail"}


def test_computing_by_hand():
    """GPT-3B: 8 x 2.97e9 parameters x 196,608 tokens on 16 GPUs at 400 TFLOP/s: 0.73 s."""
    preset = preset_of("gpt-3b-32")
    made = compute_ps(preset.model, preset.degrees, 400 * 10**12)
    flops = 8 * total_params(preset.model) * 12 * 8 * 2048
    assert made == -(-flops * 10**12 // (16 * 400 * 10**12))
    assert 720 * MS < made < 740 * MS
    plain = Degrees(gpus=1, seq=1000)
    assert compute_ps(LLAMA, plain, 6 * total_params(LLAMA)) == 1000 * 10**12


def test_bursts_share_out_the_iteration():
    preset = preset_of("gpt-3b-32")
    found = bursts_of(plan_iteration(preset.model, preset.degrees), 500 * MS, 400 * GB)
    assert [b.parallelism for b in found] == ["TP", "PP", "DP"]
    period = 500 * MS + sum(b.on_ps for b in found)
    for b in found:
        assert b.on_ps + b.off_ps == period
        assert b.factor_milli == 1000 * period // b.on_ps
    messages = {b.parallelism: b.burst_bytes for b in found}
    assert messages["PP"] == 125_829_120, "the 125 MB message of the draft"
    assert found[2].senders == 32


def test_a_checkpoint_has_weights_and_three_words_a_parameter():
    n = total_params(LLAMA)
    assert checkpoint_bytes(LLAMA) == 14 * n
    one, chain, fan = write_ways(1000, 10, 3, RATE)
    assert (one.gpu_sends_bytes, one.hosts_send_bytes, one.stall_ps, one.acks) == (
        300,
        3000,
        300,
        3,
    )
    assert (chain.gpu_sends_bytes, chain.hosts_send_bytes, chain.acks) == (100, 3000, 1)
    assert (fan.gpu_sends_bytes, fan.hosts_send_bytes, fan.stall_ps) == (100, 1000, 100)


def test_500_gb_to_four_regions_over_a_wan():
    regions = tuple(Region(f"r{i}", 8) for i in range(4))
    each, region, fan = wan_pushes(500 * GB, regions, RTT_PS, 100 * GB)
    assert (region.wan_bytes, fan.wan_bytes) == (2000 * GB, 500 * GB)
    assert fan.all_ps == 40 * 10**12 + 75 * MS
    assert region.all_ps == 160 * 10**12 + 75 * MS
    assert fan.window_bytes == 1_875_000_000, "100 Gbit/s for 150 ms"
    assert (region.price_micro, fan.price_micro) == (40 * 10**6, 10 * 10**6)
    assert each.wan_bytes == 32 * 500 * GB
    with pytest.raises(ConfigError, match="rtts"):
        wan_pushes(1, regions, (1, 2), 1)


def exchanged(senders):
    """Most that one node sends and gets, and all together, from (sender, receiver) pairs."""
    sent, got = {}, {}
    for a, b in senders:
        sent[a] = sent.get(a, 0) + 1
        got[b] = got.get(b, 0) + 1
    return max(sent.values()), max(got.values()), len(senders)


@given(each=st.integers(1, 6), clusters=st.integers(2, 6))
def test_federated_rounds_against_every_single_message(each, clusters):
    n = each * clusters
    star = [("s", w) for w in range(n)] + [(w, "s") for w in range(n)]
    made = centralised(1, n, "unicast")
    assert exchanged(star) == (
        made.busiest_sends_bytes,
        made.busiest_gets_bytes,
        made.total_bytes,
    )
    heads = [(f"h{a}", f"h{b}") for a in range(clusters) for b in range(clusters) if a != b]
    for w in range(n):
        heads += [(f"h{w % clusters}", w), (w, f"h{w % clusters}")]
    made = semi_decentralised(1, n, clusters, "unicast")
    assert exchanged(heads) == (
        made.busiest_sends_bytes,
        made.busiest_gets_bytes,
        made.total_bytes,
    )


@given(n=st.integers(3, 24), half=st.integers(1, 8))
def test_hops_on_a_ring_against_a_walk(n, half):
    if 2 * half >= n:
        return
    steps = [*range(1, half + 1), *range(-half, 0)]
    seen, rounds, edge = {0}, 0, {0}
    while len(seen) < n:
        edge = {(a + s) % n for a in edge for s in steps} - seen
        seen |= edge
        rounds += 1
    made = decentralised(1, n, 2 * half, "unicast")
    assert (made.hops_to_all, made.total_bytes) == (rounds, n * 2 * half)


def test_a_fan_saves_what_goes_down_and_nothing_that_comes_up():
    one, fan = (centralised(10, 4, way) for way in ("unicast", "fan"))
    assert (one.total_bytes, fan.total_bytes) == (80, 50)
    assert fan.busiest_gets_bytes == one.busiest_gets_bytes == 40
    assert decentralised(10, 5, 4, "fan").total_bytes == 50
    assert decentralised(10, 5, 4, "fan").hops_to_all == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: centralised(1, 1, "fan"), "workers"),
        (lambda: semi_decentralised(1, 8, 3, "fan"), "clusters"),
        (lambda: semi_decentralised(1, 8, 1, "fan"), "clusters"),
        (lambda: decentralised(1, 8, 3, "fan"), "neighbours"),
        (lambda: decentralised(1, 8, 8, "fan"), "neighbours"),
        (lambda: tree(4, 1, 1, RATE, 1), "fan_in"),
        (lambda: direct(0, 1, 1, RATE), "senders"),
    ],
)
def test_what_cannot_be_is_named(call, words):
    with pytest.raises(ConfigError, match=words):
        call()


def test_incast_by_hand():
    """64 senders of 100 bytes, windows of 30."""
    one = direct(64, 100, 30, RATE)
    assert (one.into_bytes, one.queue_bytes, one.time_ps) == (6400, 63 * 30, 6400)
    assert direct(64, 20, 30, RATE).queue_bytes == 63 * 20
    by_tree = tree(64, 100, 30, RATE)
    assert (by_tree.into_bytes, by_tree.queue_bytes, by_tree.time_ps) == (800, 210, 1600)
    assert folded(100, RATE) == ("folded", 100, 0, 100)


@given(senders=st.integers(2, 5000), k=st.integers(2, 16))
def test_a_tree_of_k_reaches_all_senders_in_its_levels(senders, k):
    each = min(k, senders)
    levels = tree(senders, 10, 10, RATE, k).time_ps // (10 * each)
    assert k ** (levels - 1) < senders <= k**levels


def test_keys_and_values_by_hand():
    """Llama-3 70B: 2 x 8 x 128 x 80 layers x 2 bytes = 327,680 bytes a token."""
    assert cache_bytes(LLAMA, 1, "bf16") == 327_680
    latent = preset_of("deepseek-v3").model
    assert cache_bytes(latent, 1, "bf16") == 2 * 61 * (512 + 64)


def test_state_that_is_sent_again_and_again():
    one, fan, fold = sync_ways(10_000, MS, 8)
    assert (one.messages_per_s, one.source_bps, one.acks_per_s) == (8000, 640_000_000, 24_000)
    assert (fan.messages_per_s, fan.source_bps, fan.acks_per_s) == (1000, 80_000_000, 24_000)
    assert fold.acks_per_s == 3000


def test_roles_give_what_others_get():
    found = {t.role: t for t in traffic_by_role(1000, 4, 2, 64)}
    sent = sum(t.nodes * t.sends_bytes for t in found.values())
    got = sum(t.nodes * t.gets_bytes for t in found.values())
    assert sent == got
    server = found["aggregator"]
    assert server.gets_bytes == 4 * 1000 + STATUS_BYTES
    assert server.sends_bytes == 6 * 1000 + STATUS_BYTES
    assert server.fan_sends_bytes == 1000 + STATUS_BYTES
    assert found["manager"].sends_bytes == found["producer"].sends_bytes == 256 + STATUS_BYTES


def test_the_weights_of_a_model_come_layer_by_layer():
    found = rows("layers")
    assert [row["part"] for row in found[:2]] == ["embeddings", "layer 0"]
    assert len(found) == 82
    assert found[-1]["so_far_bytes"] == 2 * total_params(LLAMA)
    so_far = np.cumsum([row["own_bytes"] for row in found])
    assert so_far.tolist() == [row["so_far_bytes"] for row in found]
