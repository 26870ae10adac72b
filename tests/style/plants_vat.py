"""Planted faults of aggregation trees: file, text, faulty text, test that must turn red."""

VAT = "tests/unit/topo/test_vat.py::"
CLI = "tests/unit/cli/test_cli_vat.py::"
RULES = VAT + "test_each_broken_rule_is_named_alone"
LEAST = VAT + "test_no_tree_of_a_small_net_costs_less"
EVERY = VAT + "test_trees_on_every_net_keep_all_rules_and_save_links"
QUOTA = VAT + "test_jobs_share_switches_by_quota_and_go_elsewhere_when_it_is_used_up"

OWN_JOBS = CLI + "test_a_file_without_jobs_of_their_own_is_refused"

PLANTS = (
    ("src/fanfold/topo/vat_file.py", "if not file.jobs:", "if file.jobs is None:", OWN_JOBS),
    ("src/fanfold/topo/vat_file.py", "names.add(job.name)", "names.add('')", OWN_JOBS),
    ("src/fanfold/cli/vat.py", "if slots is not None or not file:", "if True:", OWN_JOBS),
    ("src/fanfold/topo/vat_rules.py", "if n > 1:", "if n > 2:", RULES),
    ("src/fanfold/topo/vat_rules.py", "if len(roots) != 1:", "if not roots:", RULES),
    ("src/fanfold/topo/vat_rules.py", "if at == node.at:", "if at == NONE:", RULES),
    (
        "src/fanfold/topo/vat_rules.py",
        "if node.at < self.ways.n_hosts and",
        "if False and",
        RULES,
    ),
    (
        "src/fanfold/topo/vat_rules.py",
        "if both not in (0, one.a_bm, other.a_bm):",
        "if both not in (0, one.a_bm, other.a_bm, 2):",
        RULES,
    ),
    (
        "src/fanfold/topo/vat_rules.py",
        "node.a_bm & ~self.by_at[node.parent].a_bm",
        "0 & ~self.by_at[node.parent].a_bm",
        RULES,
    ),
    (
        "src/fanfold/topo/vat_rules.py",
        "never = node.a_bm & ~comes[node.at]",
        "never = 0",
        RULES,
    ),
    ("src/fanfold/topo/vat_rules.py", "if wrong:", "if wrong < 0:", RULES),
    ("src/fanfold/topo/vat_rules.py", "if node.a_bm & p_bm and", "if False and", RULES),
    (
        "src/fanfold/topo/vat_rules.py",
        "node.at not in (source, target)",
        "node.at != target",
        VAT + "test_figure_1_keeps_all_rules_and_costs_twelve_links",
    ),
    (
        "src/fanfold/topo/vat_rules.py",
        "if n_links >= FAR:",
        "if n_links > FAR:",
        VAT + "test_a_node_without_a_way_to_its_parent_is_told",
    ),
    ("src/fanfold/topo/vat_rules.py", "used[at] += vat.quota", "used[at] = vat.quota", QUOTA),
    (
        "src/fanfold/topo/vat.py",
        "key=lambda node: (node.a_bm.bit_count(), node.at in above),",
        "key=lambda node: (node.a_bm.bit_count(), node.at not in above),",
        VAT + "test_equal_masks_on_one_way_are_in_order_only_from_below",
    ),
    (
        "src/fanfold/topo/vat.py",
        "if to >= net.n_hosts})",
        "if to >= 0})",
        LEAST,
    ),
    (
        "src/fanfold/topo/vat_build.py",
        "if used[at] + job.quota <= n_slots]",
        "if used[at] + 1 <= n_slots]",
        QUOTA,
    ),
    (
        "src/fanfold/topo/vat_build.py",
        "used[node.at] += job.quota",
        "used[node.at] += 0",
        QUOTA,
    ),
    ("src/fanfold/topo/vat_exact.py", "leaving = best + self.slots", "leaving = best", LEAST),
    ("src/fanfold/topo/vat_exact.py", "part = (part - 1) & rest", "part = 0", LEAST),
    (
        "src/fanfold/topo/vat_grow.py",
        "(len(packets) > 1 and place in self.is_allowed)",
        "len(packets) > 1",
        EVERY,
    ),
    (
        "src/fanfold/topo/vat_file.py",
        "if host in seen:",
        "if host < 0:",
        CLI + "test_a_wrong_file_is_named_by_its_key",
    ),
    (
        "src/fanfold/topo/vat_file.py",
        "for host, bit in enumerate(text)",
        "for host, bit in enumerate(reversed(text))",
        CLI + "test_figure_1_is_drawn_with_its_masks",
    ),
    (
        "src/fanfold/cli/vat.py",
        "tuple(hosts[j::n_jobs])",
        "tuple(hosts[j:])",
        CLI + "test_what_is_printed_can_be_checked",
    ),
    (
        "src/fanfold/cli/vat.py",
        "if tree.job not in wrong}",
        "if len(tree.roots) == 1}",
        CLI + "test_a_fault_is_told_by_rule_and_ends_with_code_4",
    ),
)
