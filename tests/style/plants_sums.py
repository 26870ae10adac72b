"""Planted faults of sums in the simulator: file, text, faulty text, test that turns red."""

SUMS = "tests/sim/test_sums.py::"
FIGURE = "tests/sim/test_sums_figure_one.py::test_figure_one_is_the_golden_trace"
TWICE = SUMS + "test_a_block_that_comes_twice_counts_once"
WRONG = SUMS + "test_a_wrong_contribution_is_named"
WINDOW = SUMS + "test_a_sum_over_a_star_takes_what_its_window_allows[40-5]"
LINKS = SUMS + "test_every_link_of_the_tree_carries_the_array_once_each_way[True-20484]"
L = "src/fanfold/sim/loop/"

PLANTS = (
    (
        "src/fanfold/kernels/absorb.py",
        "elif meets(bits, heard, n_words) or meets(bits, flushed, n_words):",
        "elif meets(bits, flushed, n_words):",
        TWICE,
    ),
    (L + "ranks.py", "if words[j] != ranks.want", "if words[j] < ranks.want", WRONG),
    (L + "ranks.py", "n_slots // 2, 1", "n_slots // 2 - 1, 1", WINDOW),
    (L + "blocks.py", "block) - STAND_IN", "block)", LINKS),
    (
        L + "folds.py",
        "send(q, world.links, world.pkts, p, out + port)",
        "free_pkt(q, world.pkts, p)",
        FIGURE,
    ),
)
