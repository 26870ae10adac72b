"""Planted faults of encodings/: file, old text, faulty text, test that must turn red."""

HERE = "src/fanfold/encodings/"
UNIT = "tests/unit/encodings/"
LAWS = UNIT + "test_encoding_laws.py::"
ONCE = LAWS + "test_every_receiver_gets_one_copy_and_others_none"
FORMATS = UNIT + "test_encoding_formats.py::"
HEADERS = FORMATS + "test_the_header_is_as_worked_out"
HOPS = FORMATS + "test_every_hop_sends_what_was_worked_out"
SURVEY = UNIT + "test_encoding_survey.py::"
COUNTS = SURVEY + "test_every_count_is_as_worked_out_by_hand"
PLANNER = UNIT + "test_encoding_planner.py::"
CLI = "tests/unit/cli/test_cli_encodings.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        HERE + "flat_bier.py",
        "left &= ~mask",
        "left &= left - 1",
        ONCE + "[bier-64-fat-tree:k=4]",
    ),
    (HERE + "flat_bier.py", "fixed + (left & mask)", "fixed + left", HOPS + "[bier-64]"),
    (
        HERE + "flat_bier.py",
        "self._key = self.sub_domain << 8 | self.si",
        "self._key = self.si.copy()",
        FORMATS + "test_the_last_bfr_id_of_a_sub_domain_is_followed_by_another_sub_domain",
    ),
    (
        HERE + "sub_domains.py",
        "domain = places_of(ground.net)",
        "domain = places_of(ground.net) * 0",
        SURVEY + "test_packets_are_as_many_as_sets_that_receivers_touch",
    ),
    (
        HERE + "hierarchical_bier.py",
        "bits &= ~(1 << domain % width)",
        "pass",
        ONCE + "[bier-h-256-fat-tree:k=4]",
    ),
    (
        HERE + "hierarchical_bier.py",
        "if entry[0] == domain:",
        "if True:",
        ONCE + "[bier-h-256-fat-tree:k=4]",
    ),
    (
        HERE + "domains.py",
        "is_one = (low == high)",
        "is_one = (low <= high)",
        LAWS + "test_a_pod_ends_below_the_cores",
    ),
    (
        HERE + "rbs.py",
        "below[:-1]:\n                unit =",
        "below:\n                unit =",
        HEADERS + "[rbs]",
    ),
    (
        HERE + "rbs.py",
        "copies.append(Copy(link, _moved(head, n, unit - FIELDS_BITS if n else 0)))",
        "copies.append(Copy(link, _moved(head, n, unit if n else 0)))",
        HOPS + "[rbs]",
    ),
    (
        HERE + "rbs.py",
        "fixed += 8 if a <= MAX_FIXED else MAX_BITS",
        "fixed += 8",
        FORMATS + "test_rbs_takes_long_lengths_where_a_unit_is_longer_than_eight_bits_tell",
    ),
    (
        HERE + "rts.py",
        "flags = self.flags & ~(S_FLAG | L_FLAG) & 0xFC",
        "flags = self.flags",
        HOPS + "[rts]",
    ),
    (
        HERE + "rts.py",
        "        if kind.has_b and not (below and below <= set(links)):",
        "        if kind.has_b and not below:",
        ONCE + "[rts-fat-tree:k=4]",
    ),
    (
        HERE + "rts.py",
        "units += bytes(n_list - len(units))",
        "units += bytes([S_FLAG]) * (n_list - len(units))",
        FORMATS + "test_rts_pads_a_long_list_and_reads_over_the_padding",
    ),
    (
        HERE + "tree_pack.py",
        "        if fits(root, _joined(parts[:middle])):",
        "        if middle:",
        LAWS + "test_no_packet_names_receivers_in_more_bits_than_switches_read",
    ),
    (
        HERE + "id_list.py",
        "self._bytes(hosts[links == link])",
        "self._bytes(hosts)",
        HOPS + "[id-list]",
    ),
    (
        HERE + "elmo.py",
        "                body.take(clos.n_pods)\n                _read",
        "                _read",
        ONCE + "[elmo-s-fat-tree:k=4]",
    ),
    (
        HERE + "elmo.py",
        "            for spine in self.clos.spines_of(pod):",
        "            for spine in self.clos.spines_of(pod)[:1]:",
        SURVEY + "test_elmo_leaves_rows_in_switches_instead_of_spurious_copies",
    ),
    (
        HERE + "elmo.py",
        "BUDGET_BITS = 325 * 8",
        "BUDGET_BITS = 512 * 8",
        SURVEY + "test_headers_of_elmo_are_as_short_as_published",
    ),
    (
        HERE + "elmo_rules.py",
        "best, best_extra = (first, switch), extra",
        "best, best_extra = (first, switch), redundancy + 1",
        FORMATS + "test_switches_share_a_bitmap_as_long_as_few_ports_are_too_many",
    ),
    (
        HERE + "prefix_blocks.py",
        "if at != origin and at in links",
        "if at in links",
        ONCE + "[peel-fat-tree:k=4]",
    ),
    (
        HERE + "prefix_blocks.py",
        "n_spare = size // FILL if self.is_covering else 0",
        "n_spare = size // FILL",
        ONCE + "[peel-fat-tree:k=6]",
    ),
    (
        HERE + "clos.py",
        "if pairs.shape[1] != is_low.sum() or",
        "if",
        LAWS + "test_a_spine_that_leaves_out_a_leaf_is_no_clos",
    ),
    (
        HERE + "walk.py",
        "most_lookups = max(most_lookups, turn.n_lookups)",
        "most_lookups = turn.n_lookups",
        COUNTS,
    ),
    (
        HERE + "survey.py",
        "link_header_bytes=went.header_bytes * n_segments",
        "link_header_bytes=went.header_bytes",
        SURVEY + "test_a_payload_beyond_the_mtu_goes_in_packets_with_a_header_each",
    ),
    (
        HERE + "survey.py",
        "extra = sum(went.arrivals.values()) + sum(went.strays.values()) - self.members.size",
        "extra = sum(went.strays.values())",
        SURVEY + "test_spurious_copies_are_counted_as_they_arrive",
    ),
    (
        HERE + "ground.py",
        "hops[nodes] = level",
        "hops[nodes] = level - 1",
        COUNTS,
    ),
    (
        HERE + "planner.py",
        "mine = options._replace(placement=kind, jobs=jobs)",
        'mine = options._replace(placement="naive", jobs=jobs)',
        PLANNER + "test_the_planner_beats_naive_numbering",
    ),
    (
        HERE + "planner.py",
        "(may_store or not r.group_entries)",
        "True",
        PLANNER + "test_a_group_may_leave_rows_in_switches_only_if_asked",
    ),
    (
        HERE + "planner.py",
        '    ("most_lookups", "rows read of one packet"),\n',
        "",
        PLANNER + "test_near_the_least_bytes_fewer_packets_decide_then_fewer_rows_read",
    ),
    (
        HERE + "size_sweep.py",
        "                break\n",
        "                continue\n",
        PLANNER + "test_it_pays_only_from_where_it_pays_at_every_larger_size",
    ),
    (
        "src/fanfold/cli/encodings.py",
        "first = min(source // n * n, net.n_hosts - n)",
        "first = 0",
        CLI + "test_members_are_drawn_counted_or_named",
    ),
    (
        "docs/encodings.md",
        "| rts | 1 | 50 / 18 | 0.2 |",
        "| rts | 1 | 50 / 18 | 0.4 |",
        CLI + "test_the_page_says_what_the_command_prints",
    ),
    (
        "src/fanfold/encodings/hierarchical_bier.py",
        "!= self.place[net.src[up]]).any():",
        "!= self.place[net.src[up]]).all():",
        "tests/unit/encodings/test_encoding_laws.py::test_what_cannot_be_done_is_refused",
    ),
)
