"""Planted faults of parity and conservation: file, text, faulty text, test that turns red."""

BIFTS = "tests/parity/test_parity_bifts.py::"
SHAPES = BIFTS + "test_each_bit_of_each_table_leads_out_of_the_same_port"

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
)
