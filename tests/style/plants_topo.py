"""Planted faults of the floor and topo: file, text, faulty text, test that must turn red."""

BIFT = "tests/unit/topo/test_bift.py::"
LAWS = "tests/property/test_tables.py::"
FILES = "tests/unit/topo/test_net_files.py::"

PLANTS = (
    (
        "src/fanfold/units.py",
        "if value.denominator != 1 or",
        "if",
        "tests/unit/test_units.py::test_what_is_no_whole_quantity_is_refused_by_field",
    ),
    (
        "src/fanfold/units.py",
        "(value * 1000 + unit // 2) // unit",
        "value * 1000 // unit",
        "tests/unit/test_units.py::test_text_for_people",
    ),
    (
        "src/fanfold/ids.py",
        'width = len(match[1]) if match[1].startswith("0") else 0',
        "width = 0",
        "tests/unit/test_ids.py::test_padding_is_not_dropped",
    ),
    (
        "src/fanfold/ids.py",
        "(item,) if item in known else _expand(item, field)",
        "_expand(item, field)",
        "tests/unit/test_ids.py::test_lists_expand_in_order",
    ),
    (
        "src/fanfold/topo/fabric.py",
        "tuple(sorted(them))",
        "tuple(sorted(them, reverse=True))",
        "tests/unit/topo/test_fabric.py::test_ports_follow_the_names_of_neighbours_not_the_file",
    ),
    (
        "src/fanfold/topo/fabric_rules.py",
        "seen.setdefault(frozenset((link.a, link.b)), index)",
        "seen.setdefault((link.a, link.b), index)",
        "tests/unit/topo/test_fabric.py::test_each_fault_is_named_by_its_key",
    ),
    (
        "src/fanfold/topo/fabric_rules.py",
        'if name == start or fabric.by_name[name].role == "bfr":',
        "if True:",
        "tests/unit/topo/test_fabric.py::test_each_fault_is_named_by_its_key",
    ),
    (
        "src/fanfold/topo/graph.py",
        'if node.role == "bfr":',
        "if True:",
        "tests/unit/topo/test_graph.py::test_no_path_leads_through_a_host",
    ),
    (
        "src/fanfold/topo/clos.py",
        "i * leaves // hosts",
        "i % leaves",
        "tests/unit/topo/test_clos.py::test_the_lab_as_designed",
    ),
    (
        "src/fanfold/topo/bift.py",
        "index // WORD_BITS), bit)",
        "index * 0), bit)",
        LAWS + "test_f_bms_of_a_table_partition_the_bits",
    ),
    (
        "src/fanfold/topo/bift.py",
        "part = table if row.n_hops % 2 else table * n_paths // n_ecmp",
        "part = table",
        BIFT + "test_two_tiers_of_choice_do_not_polarise",
    ),
    (
        "src/fanfold/topo/bift.py",
        "(part + rotation) % n_paths",
        "part % n_paths",
        BIFT + "test_leaves_start_at_different_spines",
    ),
    (
        "src/fanfold/topo/bift.py",
        "row.bit_position - 1] = nbr",
        "row.bit_position % n_bits] = nbr",
        BIFT + "test_worked_example_of_rfc_8279",
    ),
    (
        "src/fanfold/topo/fabric_net.py",
        "    check_net(net, str(path))\n",
        "",
        FILES + "test_a_fabric_without_hosts_or_with_hosts_side_by_side_is_refused",
    ),
    (
        "src/fanfold/topo/fabric_net.py",
        "net = fabric_net(fabric, line)",
        "net = fabric_net(fabric)",
        FILES + "test_a_lab_s_fabric_is_the_net_of_its_ports",
    ),
    (
        "src/fanfold/topo/birt.py",
        "nbrs = (SELF_NBR,)",
        "nbrs = ()",
        LAWS + "test_every_receiver_gets_each_packet_once_over_a_shortest_path",
    ),
    (
        "src/fanfold/topo/predict.py",
        "for si in sorted(sets)]",
        "for si in sorted(sets)[:1]]",
        "tests/unit/topo/test_predict.py::test_receivers_of_two_sets_take_two_packets",
    ),
    (
        "src/fanfold/topo/predict.py",
        "links[direction] = _add(links.get(direction, (0, 0)), sums)",
        "links[direction] = sums",
        LAWS + "test_predictions_add_up",
    ),
    (
        "src/fanfold/topo/predict.py",
        "if not any(them < o for o in guilty.values())",
        "if them",
        "tests/unit/topo/test_predict.py::test_losses_point_to_the_element_above_them",
    ),
)
