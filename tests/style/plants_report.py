"""Planted faults of reports: file, old text, faulty text, test that must fail."""

REPORT = "src/fanfold/report/"
T_PAGE = "tests/unit/report/test_report.py::"
T_PARTS = "tests/unit/report/test_report_parts.py::"
T_CLI = "tests/unit/cli/test_cli_report.py::"
T_BROWSER = "tests/live/test_report_browser.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        REPORT + "page.html.j2",
        "default-src 'none'; ",
        "",
        T_PAGE + "test_the_page_asks_for_nothing",
    ),
    (
        REPORT + "page.html.j2",
        'href="data:,"',
        'href="favicon.ico"',
        T_PAGE + "test_the_page_asks_for_nothing",
    ),
    (
        REPORT + "page.html.j2",
        '<h2 id="{{ s.name }}-title">{{ s.title }}</h2>',
        '<h2 id="{{ s.name }}-title">{{ s.title }}',
        T_PAGE + "test_a_title_is_text_wherever_it_stands",
    ),
    (
        REPORT + "page.py",
        "autoescape=True",
        "autoescape=False",
        T_PAGE + "test_a_title_is_text_wherever_it_stands",
    ),
    (
        REPORT + "figure.py",
        "    sized = chart.properties(width=",
        '    sized = chart.properties(name="view_1", width=',
        T_PAGE + "test_specs_have_no_counted_names_and_their_data_inside",
    ),
    (
        REPORT + "figure.py",
        "    text = in_light(json.dumps(spec, sort_keys=True), schemes)\n",
        "    text = json.dumps(spec, sort_keys=True)\n",
        T_PAGE + "test_every_figure_has_marks_words_and_both_files",
    ),
    (
        REPORT + "report.py",
        '    svgs["replay"] = in_light(standalone(material.replay), schemes)\n',
        "",
        T_PAGE + "test_every_figure_has_marks_words_and_both_files",
    ),
    (
        REPORT + "tables.py",
        'return None if not better else max(values) if better == "more" else min(values)',
        "return None if not better else min(values)",
        T_PAGE + "test_best_is_marked_by_a_word_where_values_differ",
    ),
    (
        REPORT + "tables.py",
        "    of_ai = [m for m in shown if m in AI_METRICS]\n",
        "    of_ai = [m for m in shown if m not in AI_METRICS]\n",
        T_PAGE + "test_metrics_of_any_network_and_of_ai_jobs_stand_apart",
    ),
    (
        REPORT + "material.py",
        "    return max(points, key=lambda point: count_of(",
        "    return min(points, key=lambda point: count_of(",
        T_PAGE + "test_the_main_table_is_what_the_runs_hold",
    ),
    (
        REPORT + "material.py",
        "if any(row.run_id == run_id for row in study.rows):",
        "if any(row.scheme == run_id for row in study.rows):",
        T_PAGE + "test_a_run_of_a_study_leads_to_the_study",
    ),
    (
        REPORT + "comparison.py",
        "        if _bare(other) == bare and",
        "        if other == scenario and",
        T_PAGE + "test_a_comparison_is_all_kept_schemes_of_one_scenario",
    ),
    (
        REPORT + "comparison.py",
        '        words += ["--order", work.order]\n',
        '        words += ["--order", "shuffled"]\n',
        T_CLI + "test_the_command_of_a_comparison_makes_the_same_runs",
    ),
    (
        REPORT + "comparison.py",
        " or scenario.trees != TreeSettings()",
        "",
        T_PARTS + "test_what_flags_cannot_say_is_made_again_by_the_file",
    ),
    (
        REPORT + "gap_store.py",
        "        return msgspec.json.decode(path.read_bytes(), type=Gap)\n",
        "        raise OSError\n",
        T_PAGE + "test_the_gap_table_is_measured_once",
    ),
    (
        REPORT + "gap_section.py",
        "if cell.draft_word and cell.draft_word != cell.word",
        "if cell.draft_word and cell.draft_word == cell.word",
        T_PAGE + "test_words_of_the_gap_table_are_there",
    ),
    (
        REPORT + "verdicts.py",
        "            shown.append(line.removeprefix(start))\n",
        "            shown.append(line)\n",
        T_PARTS + "test_sentences_of_other_points_stand_apart",
    ),
    (
        REPORT + "layout.py",
        "        here = (net.tier == tier) & (least == most)\n",
        "        here = net.tier == tier\n",
        T_PARTS + "test_every_node_has_a_spot_and_every_cable_a_line",
    ),
    (
        REPORT + "layout.py",
        "    y = 1 - row / max(levels.size - 1, 1)\n",
        "    y = row / max(levels.size - 1, 1)\n",
        T_PARTS + "test_tiers_are_rows_and_a_mesh_of_one_tier_is_a_circle",
    ),
    (
        REPORT + "heat.py",
        "            most[a, b] = max(most.get((a, b), 0), load.n_bytes)\n",
        "            most[a, b] = most.get((a, b), 0) + load.n_bytes\n",
        T_PARTS + "test_heat_is_that_of_the_busier_direction",
    ),
    (
        REPORT + "heat.py",
        "for edge in self.edges[:-1] if",
        "for edge in self.edges[1:] if",
        T_PARTS + "test_steps_of_heat_rise_and_hold_every_amount",
    ),
    (
        REPORT + "replay.py",
        "                self.at_source += step.node == self.source\n",
        "                self.at_source += 1\n",
        T_PARTS + "test_a_replay_has_every_copy_and_every_word",
    ),
    (
        REPORT + "replay.py",
        "            joined[-1] += group\n",
        "            joined[-1] = group\n",
        T_PARTS + "test_many_frames_are_joined_and_none_is_lost",
    ),
    (
        REPORT + "charts.py",
        "    total = sum(n for _, n in ends)\n",
        "    total = sum(n for at_ps, n in ends if at_ps >= 0)\n",
        T_PARTS + "test_a_distribution_that_never_ends_stays_below_all",
    ),
    (
        REPORT + "charts.py",
        "if i % every == 0 or row is rows[-1]]",
        "if i % every == 0]",
        T_PARTS + "test_a_long_distribution_keeps_its_ends",
    ),
    (
        REPORT + "theme.py",
        '    "soft": ("#57606a",',
        '    "soft": ("#97a0aa",',
        T_PARTS + "test_text_and_marks_stand_out_from_the_page",
    ),
    (
        REPORT + "ranking.py",
        '    sign = -1 if metric_of(metric).better == "more" else 1\n',
        "    sign = 1\n",
        T_PARTS + "test_the_best_is_first_and_of_equals_the_one_that_sends_least",
    ),
    (
        REPORT + "amounts.py",
        '    if value == base:\n        return "1 x"\n',
        "",
        T_PARTS + "test_ratios_are_for_people",
    ),
    (
        "src/fanfold/cli/report.py",
        "    if (run is None) != last:\n",
        "    if run is None and not last:\n",
        T_CLI + "test_bad_input_is_one_line_and_exit_two",
    ),
    (
        "src/fanfold/run.py",
        "        n_parts = sim.parts_of(item)\n",
        "",
        "tests/unit/run/test_run.py"
        "::test_a_packet_of_a_source_with_several_links_is_traced_over_all",
    ),
    (
        REPORT + "page.js",
        'renderer: "svg"',
        'renderer: "canvas"',
        T_BROWSER + "test_it_draws_and_asks_for_nothing",
    ),
    (
        REPORT + "page.py",
        '        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"\n',
        '        f"@media (prefers-color-scheme:none){{:root:not([data-theme=light])"\n',
        T_BROWSER + "test_it_is_light_dark_or_paper_as_asked",
    ),
    (
        REPORT + "page.js",
        'range.addEventListener("input", () => go(',
        'range.addEventListener("inputs", () => go(',
        T_BROWSER + "test_a_packet_is_stepped_through_by_keys",
    ),
)
