"""Planted faults of parity and conservation: file, text, faulty text, test that turns red."""

BIFTS = "tests/parity/test_parity_bifts.py::"
SHAPES = BIFTS + "test_each_bit_of_each_table_leads_out_of_the_same_port"

PLANTS = (
    (
        "src/fanfold/sim/loop/tables.py",
        "part = e if hops[r, g] % 2 == 1 else e * n // n_ecmp",
        "part = e",
        BIFTS + "test_a_ring_of_bfrs_has_one_path_or_two",
    ),
    (
        "src/fanfold/sim/loop/tables.py",
        "(part + n_hosts + r) % n",
        "(part + r) % n",
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
)
