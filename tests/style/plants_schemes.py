"""Planted faults of schemes and flow fidelity: file, text, faulty text, test that turns red."""

SCHEMES = "tests/unit/schemes/test_schemes.py::"
PROMISED = SCHEMES + "test_every_rank_ends_with_what_is_promised"
FLUID = "tests/unit/sim/test_fluid.py::"
MAXMIN = "tests/property/test_maxmin.py::"

PLANTS = (
    (
        "src/fanfold/schemes/ring.py",
        "shard = (rank - int(adds) - step) % n",
        "shard = (rank - step) % n",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/ring.py",
        "draft.wait(by_receiver[:-1], ids[1:])",
        "draft.wait(ids[:-1], ids[1:])",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/tree_shape.py",
        "draft.wait(ids[below], ids[parent[rank][below] - 1])",
        "draft.wait(ids[below][:1], ids[parent[rank][below] - 1][:1])",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/tree_shape.py",
        "place[1:] = (place[1:] - 2) % (n - 1) + 1",
        "place[1:] = (place[1:] - 3) % (n - 1) + 1",
        SCHEMES + "test_two_trees_share_no_rank_inside",
    ),
    (
        "src/fanfold/schemes/halving_doubling.py",
        "sender = rank[(rank ^ d) % (2 * d) != 0]",
        "sender = rank",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/halving_doubling.py",
        "for got in earlier[:-1]:",
        "for got in earlier[:0]:",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/direct.py",
        "draft.wait_for_all(scattered.ravel()[to[rank]], gathered[rank], n_alike=n)",
        "draft.wait_for_all(scattered[rank], gathered[rank], n_alike=n)",
        PROMISED,
    ),
    (
        "src/fanfold/schemes/draft.py",
        "            self.wait(before, after[0])\n",
        "            self.wait(before[0], after[0])\n",
        SCHEMES + "test_all_wait_for_all_by_way_of_the_first_where_edges_would_be_too_many",
    ),
    (
        "src/fanfold/schemes/program.py",
        "np.minimum(begins, program.n_bytes % c)",
        "0 * begins",
        SCHEMES + "test_every_rank_ends_with_what_is_promised",
    ),
    (
        "src/fanfold/schemes/program_rules.py",
        "if n_started < n:",
        "if n_started < 0:",
        SCHEMES + "test_a_cycle_is_refused_by_its_first_item",
    ),
    (
        "src/fanfold/schemes/options.py",
        "max(depth - 1, 0)",
        "depth",
        SCHEMES + "test_chunks_follow_the_formula",
    ),
    (
        "src/fanfold/sim/loop/maxmin.py",
        'link["left"] = max(link["left"] - rate * entries[e]["weight"], float(0))',
        'link["left"] = max(link["left"] - rate, float(0))',
        MAXMIN + "test_rates_are_those_of_progressive_filling",
    ),
    (
        "src/fanfold/sim/loop/maxmin.py",
        'flows[k]["limit"] <= share',
        'flows[k]["limit"] < 0',
        MAXMIN + "test_a_flow_below_its_share_leaves_the_rest_to_others",
    ),
    (
        "src/fanfold/sim/loop/maxmin.py",
        'link["acks"] += more * entries[e]["ack_weight"]',
        'link["acks"] += 0 * more',
        FLUID + "test_acks_take_their_part_of_a_link",
    ),
    (
        "src/fanfold/sim/loop/drain.py",
        'now + whole_ps(flow["left"] / flow["rate"])',
        "now + 1",
        FLUID + "test_messages_of_one_pair_go_one_after_the_other",
    ),
    (
        "src/fanfold/sim/loop/drain.py",
        "h[ON_ACKED] * items[i]",
        "0 * items[i]",
        FLUID + "test_a_dependent_waits_for_the_last_byte_or_for_its_ack",
    ),
    (
        "src/fanfold/sim/loop/pipeline.py",
        "max(last_ps[i] + one_ps, first_ps[i] + whole_ps(span))",
        "last_ps[i] + one_ps",
        FLUID + "test_the_steady_state_of_a_pipeline_is_near_its_events",
    ),
    (
        "src/fanfold/sim/loop/tally.py",
        "(place - what[FULL] * j) % n",
        "place",
        FLUID + "test_packets_are_dealt_out_evenly_and_none_is_lost",
    ),
    (
        "src/fanfold/sim/fluid_flows.py",
        "np.unique(set_of[hosts]).size",
        "1",
        FLUID + "test_receivers_in_more_sets_take_more_copies",
    ),
    (
        "src/fanfold/sim/fluid_flows.py",
        "is_same[1:] &= (set_of[1:] == set_of[:-1])[:, None]",
        "pass",
        FLUID + "test_receivers_in_more_sets_take_more_copies",
    ),
    (
        "src/fanfold/sim/loop/ways.py",
        "if may_bind[desk.met[j]]:",
        "if may_bind[desk.met[j]] and False:",
        FLUID + "test_a_full_spine_is_shared_by_all_that_cross_it",
    ),
    (
        "src/fanfold/sim/fluid_sizes.py",
        "send.sum(axis=1) - slowest",
        "send.sum(axis=1) - send[:, 0]",
        FLUID + "test_a_slow_link_sets_the_pace",
    ),
    (
        "src/fanfold/sim/fluid_sizes.py",
        "waits = (tree.hosts.size - 1) * one",
        "waits = 0 * one",
        FLUID + "test_broadcast_by_copies_and_by_a_fan",
    ),
)
