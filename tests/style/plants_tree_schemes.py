"""Planted faults of trees as schemes: file, text, faulty text, test that turns red."""

RUNS = "tests/sim/test_trees_in_runs.py::"
COPIES = RUNS + "test_each_link_of_the_tree_has_one_copy_with_the_headers_it_has_to_have"
SET_UP = RUNS + "test_set_up_is_what_the_protocol_takes"
WAITS = RUNS + "test_a_source_waits_for_its_tree_or_not"
WORDS = RUNS + "test_receivers_speak_as_asked"
TRAINS = RUNS + "test_trains_of_packets_are_answered_packet_by_packet"
REPAIRS = RUNS + "test_repairs_go_to_all_on_a_tree_and_to_one_branch_by_bier"
SILENCE = RUNS + "test_silence_hides_no_loss"
MENDED = RUNS + "test_a_broken_tree_is_mended_when_the_protocol_has_mended_it"
SENDER = "tests/property/test_tree_sender.py::"
MANY = "tests/unit/trees/test_tree_many.py::"

PLANTS = (
    (
        "src/fanfold/sim/fan_trees.py",
        "np.bitwise_or.at(f_bm, (table, port + 1, mine // 64), word)",
        "np.bitwise_or.at(f_bm, (table, port, mine // 64), word)",
        COPIES,
    ),
    (
        "src/fanfold/sim/fan_trees.py",
        "heads[table, port + 1] = [label[k] for k in links.tolist()]",
        "heads[table, port + 1] = 0",
        COPIES,
    ),
    (
        "src/fanfold/sim/loop/fans.py",
        'more = n_bytes - pkt["labels"]',
        "more = n_bytes",
        COPIES,
    ),
    (
        "src/fanfold/schemes/tree_fans.py",
        "sizes = {k: LABEL_BYTES * (1 + (k in inner)) for k in links}",
        "sizes = dict.fromkeys(links, LABEL_BYTES * (1 + bool(inner)))",
        COPIES,
    ),
    (
        "src/fanfold/trees/standing.py",
        "phases = kept if is_first else [*phases, *kept]",
        "phases = [*phases]",
        MENDED,
    ),
    (
        "src/fanfold/trees/standing.py",
        "up_ps = max(0, run.changes[-1][0]) if run.changes else 0",
        "up_ps = max(0, run.changes[-2][0]) if run.changes else 0",
        SET_UP,
    ),
    (
        "src/fanfold/trees/standing.py",
        "messages = [m for m in run.messages if m.kind not in FABRIC_KINDS]",
        "messages = list(run.messages)",
        SET_UP,
    ),
    (
        "src/fanfold/schemes/tree_fans.py",
        "entries = dict(counts)",
        "entries = stood[0].shared_entries",
        SET_UP,
    ),
    (
        "src/fanfold/schemes/tree_fans.py",
        'starts.append(tree.up_ps if site.start == "wait" else 0)',
        "starts.append(tree.up_ps)",
        WAITS,
    ),
    (
        "src/fanfold/sim/simulate.py",
        "elif self.code == r.LATE:",
        "elif self.code == r.LATE and self.change_ps < 0:",
        WAITS,
    ),
    (
        "src/fanfold/schemes/tree_fans.py",
        "n = sum(tree.n_messages - tree.n_shared for tree in stood) + stood[0].n_shared",
        "n = sum(tree.n_messages for tree in stood)",
        RUNS + "test_a_second_source_of_a_group_costs_no_second_report",
    ),
    (
        "src/fanfold/sim/loop/run.py",
        'if fan["speaks"] == PER_PACKET and n > 0:',
        'if fan["speaks"] == PER_PACKET and b == NONE:',
        TRAINS,
    ),
    (
        "src/fanfold/sim/loop/run.py",
        'n = pkt["n"] - (1 if b != NONE else 0)',
        'n = pkt["n"]',
        WORDS,
    ),
    (
        "src/fanfold/sim/loop/fans.py",
        'return b if fan["speaks"] != PER_LOSS or row["polled"] == 2 else NONE',
        "return b",
        WORDS,
    ),
    (
        "src/fanfold/sim/loop/words.py",
        'pkt["bytes"] = n_bytes + gaps // (ROW_BYTES + words) * ROW_BYTES',
        'pkt["bytes"] = n_bytes + words',
        WORDS,
    ),
    (
        "src/fanfold/sim/fan_arrays.py",
        "if program.folds:\n            self.speaks = r.PER_BLOCK",
        "if not program:\n            self.speaks = r.PER_BLOCK",
        RUNS + "test_fanfold_folds_whatever_others_do",
    ),
    (
        "src/fanfold/core/tree_sender.py",
        'if self._repair_by == "unicast":\n            _go',
        'if self._repair_by == "branch":\n            _go',
        SENDER + "test_who_gets_what_one_lacks",
    ),
    (
        "src/fanfold/core/tree_sender.py",
        "gaps = dict.fromkeys(gaps, self._on_tree)",
        "gaps = dict(gaps)",
        REPAIRS,
    ),
    (
        "src/fanfold/core/nack_sender.py",
        "flights.update(self._aside)",
        "flights.update({})",
        SENDER + "test_a_floor_says_who_lacks_what_is_set_aside",
    ),
    (
        "src/fanfold/core/nack_sender.py",
        "out[-1] = replace(job, is_ask=True)",
        "out[-1] = job",
        SILENCE,
    ),
    (
        "src/fanfold/core/nack_sender.py",
        "for block in [b for b in self._aside if b < feedback.block - feedback.behind]:",
        "for block in [b for b in self._aside if b < feedback.block]:",
        SENDER + "test_a_floor_says_who_lacks_what_is_set_aside",
    ),
    (
        "src/fanfold/core/tree_sender.py",
        "if now_ps >= self.patient_ps:",
        "if now_ps >= 0:",
        SENDER + "test_nobody_is_given_up_while_a_tree_is_mended",
    ),
    (
        "src/fanfold/sim/fan_trees.py",
        "if phase.from_ps <= now_ps:",
        "if phase.from_ps <= now_ps and found is NO_LINKS:",
        MENDED,
    ),
    (
        "src/fanfold/sim/fan_trees.py",
        "paths = Paths(net, dead, 0)",
        "paths = Paths(net, frozenset(), 0)",
        MENDED,
    ),
    (
        "src/fanfold/trees/many.py",
        "links = {machine.source_link, *inner}",
        "links = {*inner}",
        MANY + "test_the_rule_is_what_messages_lead_to",
    ),
    (
        "src/fanfold/trees/many.py",
        "if not is_same(rule.tree(source), tree.phases[-1][1]):",
        "if not rule.tree(source):",
        MANY + "test_where_the_rule_is_wrong_all_are_measured",
    ),
    (
        "src/fanfold/trees/standing.py",
        "if run.changes[-1][0] < at_ps + (n - 1) * gap_ps:",
        "if n:",
        MANY + "test_a_tree_that_never_settles_is_refused",
    ),
)
