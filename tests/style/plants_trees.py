"""Planted faults of trees/: file, old text, faulty text, test that must turn red."""

HAND = "tests/unit/trees/test_tree_by_hand.py::"
LAWS = "tests/unit/trees/test_tree_laws.py::"
CLI = "tests/unit/cli/test_cli_trees.py::"
COSTS = HAND + "test_every_happening_costs_what_was_worked_out"
PACKETS = HAND + "test_every_packet_goes_as_was_worked_out"
STATE = HAND + "test_state_set_up_and_refresh_are_as_worked_out"
ONCE = LAWS + "test_every_member_is_reached_once_and_nobody_else"
MENDED = LAWS + "test_a_cut_cable_is_mended_as_fast_as_its_protocol_can"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/trees/world.py",
        "max(self.now_ps, self._free.get(node, SETUP_PS)) + self.settings",
        "self.now_ps + self.settings",
        HAND + "test_prunes_of_the_shared_tree_wait_for_a_busy_processor",
    ),
    (
        "src/fanfold/trees/world.py",
        "self.after(self.settings.install_ps, apply)",
        "self.after(0, apply)",
        COSTS + "[mldp-p2mp]",
    ),
    (
        "src/fanfold/trees/world.py",
        "row[2] += n_hops * n_bytes",
        "row[2] += n_bytes",
        COSTS + "[sr-p2mp]",
    ),
    (
        "src/fanfold/trees/world.py",
        "if self.down.intersection(path):\n            return\n        to =",
        "to =",
        LAWS + "test_what_is_said_over_a_dead_cable_is_lost[mldp-p2mp]",
    ),
    (
        "src/fanfold/trees/world.py",
        "if not self.machine.has_bypass:\n            self._drop(links)\n        self.after",
        "self._drop(links)\n        self.after",
        LAWS + "test_a_bypass_mends_as_soon_as_the_cut_is_noticed[mldp-p2mp]",
    ),
    (
        "src/fanfold/trees/world.py",
        "        if self.machine.has_bypass:\n            self._drop(links)\n",
        "",
        LAWS + "test_a_bypass_mends_as_soon_as_the_cut_is_noticed[mldp-p2mp]",
    ),
    (
        "src/fanfold/trees/paths.py",
        "hops[node] - 1\n",
        "hops[node] - 1 if hops[node] > 1 else 9\n",
        LAWS + "test_every_member_is_reached_once_and_nobody_else",
    ),
    (
        "src/fanfold/trees/paths.py",
        "return ways[self._group % len(ways)]\n\n    def path",
        "return ways[0]\n\n    def path",
        LAWS + "test_other_equal_paths_are_taken_by_another_group[fat-tree:k=4-pim-dm]",
    ),
    (
        "src/fanfold/trees/tree.py",
        "if at[1] >= 0 and out.links[0] == back[at[1]]:",
        "if at[1] >= 0 and out.links[0] == -back[at[1]]:",
        ONCE + "[ring:hosts=9-bidir-pim]",
    ),
    (
        "src/fanfold/trees/tree.py",
        "entry.iif in (ANY, in_link)",
        "entry.iif != NOWHERE",
        PACKETS + "[pim-dm]",
    ),
    (
        "src/fanfold/trees/settings.py",
        "JOIN_BYTES = frame_bytes(4 + 6 + 4 + 8 + 4 + 8)",
        "JOIN_BYTES = frame_bytes(4 + 6 + 4 + 8 + 4 + 6)",
        COSTS + "[bidir-pim]",
    ),
    (
        "src/fanfold/trees/pim_sm.py",
        "if is_native or not has_olist:",
        "if is_native and not has_olist:",
        COSTS + "[pim-sm]",
    ),
    (
        "src/fanfold/trees/pim_sm.py",
        "(r.has_spt_bit and to_rp != to_source)",
        "r.has_spt_bit",
        HAND + "test_who_has_both_trees_over_one_link_prunes_neither",
    ),
    (
        "src/fanfold/trees/pim_sm.py",
        "            if old != NONE and self.world.is_up(old):\n",
        "            if old != NONE and not self.world.is_up(old):\n",
        STATE + "[pim-sm]",
    ),
    (
        "src/fanfold/trees/pim_sm.py",
        "if self.settings.switch_over and r.members and not r.is_asked:",
        "if r.members and not r.is_asked:",
        CLI + "test_settings_are_taken",
    ),
    (
        "src/fanfold/trees/pim_dm.py",
        "            r.lost.add(out)\n            self.world.send(out, PRUNE, JOIN_BYTES)",
        "            r.lost.add(out)",
        COSTS + "[pim-dm]",
    ),
    (
        "src/fanfold/trees/pim_dm.py",
        "self.world.send(out, GRAFT_ACK, JOIN_BYTES)",
        "pass",
        COSTS + "[pim-dm]",
    ),
    (
        "src/fanfold/trees/bidir_pim.py",
        "if (value, -sender) < (r.metric, -node):",
        "if (value, -sender) > (r.metric, -node):",
        HAND + "test_an_election_is_won_by_the_end_that_is_nearer",
    ),
    (
        "src/fanfold/trees/bidir_pim.py",
        "                    self._elect(node, link)\n                elif",
        "                    pass\n                elif",
        MENDED + "[fat-tree:k=4-bidir-pim]",
    ),
    (
        "src/fanfold/trees/mldp_p2mp.py",
        "self.world.send(out, RELEASE, LDP_BYTES)",
        "pass",
        COSTS + "[mldp-p2mp]",
    ),
    (
        "src/fanfold/trees/mldp_mp2mp.py",
        "if r.has_up or node == self.centre:",
        "if node == self.centre:",
        COSTS + "[mldp-mp2mp]",
    ),
    (
        "src/fanfold/trees/sr_p2mp.py",
        "self.phases = [fresh, changed,",
        "self.phases = [changed, fresh,",
        COSTS + "[sr-p2mp]",
    ),
    (
        "src/fanfold/trees/sr_p2mp.py",
        "if len(links) > 1}",
        "if links}",
        LAWS + "test_replication_state_is_at_root_branches_and_leaves",
    ),
    (
        "src/fanfold/trees/tree_run.py",
        "if host not in self.members:\n                    act()",
        "act()",
        LAWS + "test_who_comes_back_while_being_asked_about_stays",
    ),
    (
        "src/fanfold/trees/tree_run.py",
        'if (h.what == "join") == (h.host in joined):',
        'if h.what == "join" and h.host in joined:',
        LAWS + "test_what_cannot_happen_is_refused",
    ),
)
