"""Planted faults of the event loop: file, old text, faulty text, test that must fail."""

LOOP = "src/fanfold/sim/loop/"
KNOWN = "tests/sim/test_validation_known.py::"
PORTS = "tests/sim/test_validation_ports.py::"
FEEDBACK = "tests/sim/test_validation_feedback.py::"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        LOOP + "ports.py",
        "    left = start_ps + head\n",
        "    left = start_ps + head + 1\n",
        KNOWN + "test_one_message_alone[2-1]",
    ),
    (
        LOOP + "ports.py",
        'left + link["prop_ps"] + q[SWITCH_PS]',
        "left + q[SWITCH_PS]",
        PORTS + "test_links_of_any_rate_in_a_row[even-False]",
    ),
    (
        LOOP + "ports.py",
        'bool(link["byte_ps"] < other["byte_ps"])',
        'bool(link["byte_ps"] > other["byte_ps"])',
        PORTS + "test_links_of_any_rate_in_a_row[up and down-True]",
    ),
    (
        LOOP + "ports.py",
        'backlog > link["mark_ps"]',
        'backlog >= link["mark_ps"]',
        PORTS + "test_packets_that_find_a_long_queue_are_marked_and_acknowledged_so",
    ),
    (
        LOOP + "ports.py",
        'backlog + ser > link["limit_ps"]',
        'backlog + ser >= link["limit_ps"]',
        PORTS + "test_a_full_queue_drops_what_comes_and_all_of_it_is_sent_again",
    ),
    (
        LOOP + "ports.py",
        "    if not is_data and q[TRIM] != 0:\n",
        "    if is_data and q[TRIM] != 0:\n",
        PORTS + "test_a_full_queue_cuts_packets_to_headers",
    ),
    (
        LOOP + "ports.py",
        'ingress["ingress"] < q[PFC_LOW]',
        'ingress["ingress"] < 0',
        PORTS + "test_pause_frames_keep_a_small_queue_from_dropping",
    ),
    (
        LOOP + "ports.py",
        'return 1 if pkt["again"] != 0 else 0',
        "return 0",
        PORTS + "test_a_cable_that_comes_back[plain]",
    ),
    (
        LOOP + "events.py",
        "    while shift < q[SHIFT]:\n",
        "    while shift + RADIX_BITS < q[SHIFT]:\n",
        PORTS + "test_many_arrivals_of_one_bucket_are_served_by_time",
    ),
    (
        LOOP + "events.py",
        "when = q[spare + 2 * (n - 1 - k)]\n",
        "when = q[spare + 2 * k]\n",
        PORTS + "test_equal_times_keep_the_order_of_items",
    ),
    (
        LOOP + "events.py",
        "q[here + 3] == q[here] and q[here + 4] < q[here + 1]",
        "q[here + 3] == q[here] and q[here + 4] > q[here + 1]",
        PORTS + "test_equal_times_keep_the_order_of_items",
    ),
    (
        LOOP + "nic.py",
        '        st["credit"] -= 1\n',
        '        st["credit"] -= 0\n',
        PORTS + "test_a_sender_waits_for_pulls_after_its_first_window",
    ),
    (
        LOOP + "nic.py",
        '    before = streams[last]["back"]\n    st["ring"] = last\n',
        '    before = streams[last]["ring"]\n    st["ring"] = last\n',
        PORTS + "test_equal_times_keep_the_order_of_items",
    ),
    (
        LOOP + "unicast.py",
        'if st["backoff"] > MAX_TRIES:',
        'if st["backoff"] > 1:',
        PORTS + "test_a_cable_that_comes_back[plain]",
    ),
    (
        LOOP + "unicast.py",
        "(q[NOW] >> AGAIN_SHIFT) & 0xFFFF",
        "(q[NOW] >> AGAIN_SHIFT) & 0",
        PORTS + "test_nothing_is_led_around_a_failure",
    ),
    (
        LOOP + "unicast.py",
        'p, PK_NACK, st["expected"])',
        'p, PK_NACK, st["expected"] + 1)',
        PORTS + "test_a_gap_makes_the_sender_go_back",
    ),
    (
        LOOP + "run.py",
        'links[i // 2]["up"] = i % 2',
        'links[i // 2]["up"] = 1',
        PORTS + "test_a_cable_that_stays_down_is_an_end_with_a_name[plain]",
    ),
    (
        LOOP + "fans.py",
        'set_deadline(row, bier.bfrs[r : r + 1], 64 - pkt["ttl"], q[NOW] + pkt["span_ps"])',
        "pass",
        PORTS + "test_a_fan_that_is_cut_off_names_its_receivers",
    ),
    (
        LOOP + "fans.py",
        "table = (r * q[N_SI] + si) * q[N_ECMP]",
        "table = r * q[N_SI] * q[N_ECMP]",
        FEEDBACK + "test_receivers_of_two_sets_are_two_packets_and_two_words",
    ),
    (
        LOOP + "fans.py",
        "    expect(fold, slot, pkt_bits[p], q[N_WORDS])\n",
        "",
        FEEDBACK + "test_eight_receivers_in_one_star_without_a_compiler",
    ),
    (
        "src/fanfold/sim/by_hand.py",
        "if (int(q[up]), int(q[up + 1])) < row[:2]:",
        "if int(q[up]) < row[0]:",
        "tests/sim/test_by_hand.py::test_push",
    ),
    (
        "src/fanfold/sim/by_hand.py",
        'if item["unacked"] > 0:',
        'if item["unacked"] > 1:',
        "tests/sim/test_by_hand.py::test_finish",
    ),
    (
        "src/fanfold/topo/rail.py",
        "leaf[pod * gpus + which], line",
        "leaf[(which + server) % leaf.size], line",
        "tests/sim/test_validation_shapes.py::test_a_ring_on_its_rail_is_faster_than_over_spines",
    ),
)
