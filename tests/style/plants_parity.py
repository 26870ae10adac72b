"""Planted faults of parity and conservation: file, text, faulty text, test that turns red."""

BIFTS = "tests/parity/test_parity_bifts.py::"
SHAPES = BIFTS + "test_each_bit_of_each_table_leads_out_of_the_same_port"

CENSUS = "tests/sim/test_census.py::test_all_adds_up_at_every_stop"
LOSS = "tests/sim/test_loss.py::"
ORDER = "tests/sim/test_order.py::test_the_order_of_lines_changes_nothing"

PLANTS = (
    (
        "src/fanfold/sim/loop/tables.py",
        "part = table if left % 2 == 1 else table * n // n_ecmp",
        "part = table",
        BIFTS + "test_two_tiers_in_a_row_do_not_read_the_same_part_of_the_entropy",
    ),
    (
        "src/fanfold/sim/loop/tables.py",
        "return (part + node) % n",
        "return (part + node + 1) % n",
        SHAPES,
    ),
    (
        "src/fanfold/sim/loop/tables.py",
        "f_bm[table, nbr + 1, k // 64]",
        "f_bm[table, nbr, k // 64]",
        SHAPES,
    ),
    (
        "src/fanfold/topo/bift.py",
        'key=lambda node: node.role != "host"',
        "key=lambda node: 0",
        BIFTS + "test_nodes_may_stand_in_any_order_of_the_file",
    ),
    (
        "src/fanfold/topo/bift.py",
        "row.nbrs[0 if table % 2 == 0 else n_paths - 1]",
        "row.nbrs[0]",
        BIFTS + "test_in_a_ring_of_bfrs_every_one_goes_round_the_same_way",
    ),
    (
        "src/fanfold/sim/loop/ports.py",
        """        link["drops"] += pkt["n"]
        free_pkt(q, pkts, p)
        return
    if link["mark_ps"]""",
        """        link["drops"] += pkt["n"]
        return
    if link["mark_ps"]""",
        CENSUS + "[limits]",
    ),
    (
        "src/fanfold/sim/loop/ports.py",
        """        link["lost"] += pkt["n"]
""",
        "",
        CENSUS + "[plain, 10 of 1000 lost]",
    ),
    (
        "src/fanfold/sim/loop/ports.py",
        "    if kind == PK_FEEDBACK or kind >= PK_ARRAY:",
        "    if kind > PK_FEEDBACK:",
        CENSUS + "[folded]",
    ),
    (
        "src/fanfold/sim/loop/ports.py",
        'ingress["ingress"] -= n_bytes',
        'ingress["ingress"] -= n_bytes - 1',
        CENSUS + "[paused]",
    ),
    (
        "src/fanfold/sim/loop/unicast.py",
        '        bits[at] |= bit(r & 63)\n    st["n_got"] += 1',
        '    st["n_got"] += 1',
        CENSUS + "[plain, 10 of 1000 lost]",
    ),
    (
        "src/fanfold/sim/build.py",
        "(settings.queue_bytes and not q[r.TRIM])))",
        "(settings.queue_bytes and not q[r.TRIM] and not high)))",
        CENSUS + "[limits, paused]",
    ),
    (
        "src/fanfold/sim/loop/unicast.py",
        'elif st["active"] != 0:  # what',
        'elif st["active"] > 1:  # what',
        LOSS + "test_what_waits_to_be_sent_again_and_has_come_is_let_be",
    ),
    (
        "src/fanfold/sim/build.py",
        "np.lexsort((ranks[waiting], of))",
        "np.lexsort((waiting, of))",
        ORDER + "[forks]",
    ),
    (
        "src/fanfold/sim/fan_arrays.py",
        "for m in order_of(fans):",
        "for m in range(len(fans)):",
        ORDER + "[fans]",
    ),
    (
        "src/fanfold/sim/build.py",
        "np.lexsort((np.arange(src.size), program.n_bytes, program.start_ps, dst, src))",
        "np.arange(src.size)",
        ORDER + "[pairs]",
    ),
)
