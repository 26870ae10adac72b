"""Planted faults of the push service: (file, old text, new text, test that must fail)."""

PUSH = "src/fanfold/push/"
TESTS = "tests/unit/push/"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        PUSH + "manifest.py",
        "and DOTS.isdisjoint(names)",
        "and path not in {'.', '..'}",
        TESTS + "test_push_manifest.py::test_paths_that_leave_the_target_are_refused[../up]",
    ),
    (
        PUSH + "manifest.py",
        'keys = sorted(path.replace("/", "\\0") for path in paths)',
        'keys = [k.replace("/", "\\0") for k in sorted(paths)]',
        TESTS + "test_push_manifest.py::"
        "test_duplicates_and_files_that_are_folders_are_refused[paths3]",
    ),
    (
        PUSH + "manifest.py",
        '    _require(encode(manifest) == data, "encoding", "not canonical")\n',
        "",
        TESTS + "test_push_manifest.py::test_a_second_spelling_is_refused",
    ),
    (
        PUSH + "manifest.py",
        "(msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
        "(msgspec.DecodeError, RecursionError)",
        TESTS + "test_push_manifest.py::test_text_that_is_not_utf8_is_refused",
    ),
    (
        PUSH + "layout.py",
        "position - self._starts[k]",
        "position - self._starts[0]",
        TESTS + "test_push_source.py::test_a_tree_is_one_stream_in_order_of_names",
    ),
    (
        PUSH + "fds.py",
        "            os.close(self._fds.popitem(last=False)[1])",
        "            self._fds.popitem(last=False)",
        TESTS + "test_push_source.py::test_at_most_64_files_are_open",
    ),
    (
        PUSH + "fds.py",
        "done += os.pwrite(fd, view[done:], offset + done)",
        "done += len(view[os.pwrite(fd, view, offset) * 0:])",
        TESTS + "test_push_refusals.py::test_short_writes_and_reads_are_continued",
    ),
    (
        PUSH + "source.py",
        "n != piece.size or identity_of(fd) != file.identity",
        "n != piece.size",
        TESTS + "test_push_source.py::test_change_while_hashing_is_named[touch_later]",
    ),
    (
        PUSH + "scan.py",
        "if stat.S_ISLNK(mode):\n",
        "if stat.S_ISLNK(mode) and not full_path:\n",
        TESTS + "test_push_source.py::test_links_are_refused_by_name",
    ),
    (
        PUSH + "incoming.py",
        " or blake3(view).digest() != chunk_hash(self.manifest, i)",
        "",
        TESTS + "test_push_store.py::test_wrong_bytes_are_not_written",
    ),
    (
        PUSH + "incoming.py",
        "self.have[i >> 3] |= 0x80 >> (i & 7)",
        "self.have[i >> 3] |= 1 << (i & 7)",
        TESTS + "test_push_store.py::test_have_is_most_significant_bit_first",
    ),
    (
        PUSH + "incoming.py",
        "            if self._is_rechecked:\n",
        "            if not self._is_rechecked:\n",
        TESTS + "test_push_refusals.py::"
        "test_file_hash_that_does_not_fit_its_chunks_is_a_bad_manifest[False]",
    ),
    (
        PUSH + "incoming.py",
        "        if lacking > room:",
        "        if lacking > 1000 * room:",
        TESTS + "test_push_refusals.py::test_full_disk_is_said_up_front",
    ),
    (
        PUSH + "incoming.py",
        "lacking += sum(piece.size for piece in self._wanted(i))",
        "lacking += self.layout.total_bytes",
        TESTS + "test_push_refusals.py::test_room_counts_only_what_is_lacking",
    ),
    (
        PUSH + "survey.py",
        "        return blake3(view).digest() == chunk_hash(self._manifest, i)",
        "        return True",
        TESTS + "test_push_store.py::test_damaged_staged_chunk_is_asked_for_again",
    ),
    (
        PUSH + "survey.py",
        "        if any(staged) and self._is_read(",
        "        if not all(staged) and self._is_read(",
        TESTS + "test_push_store.py::test_stale_staging_does_not_hide_the_final_file",
    ),
    (
        PUSH + "survey.py",
        "            if identity_of(fd) != self.in_place[index]:",
        "            if identity_of(fd) == ():",
        TESTS + "test_push_refusals.py::test_file_in_place_that_changes_later_is_a_collision",
    ),
    (
        PUSH + "staging.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        TESTS + "test_push_store.py::test_same_push_twice_at_once_is_refused",
    ),
    (
        PUSH + "target.py",
        "DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW",
        "DIR_FLAGS = os.O_RDONLY | os.O_DIRECTORY",
        TESTS + "test_push_refusals.py::test_links_below_the_root_are_refused[d-folder]",
    ),
    (
        PUSH + "target.py",
        "FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK",
        "FILE_FLAGS = os.O_NONBLOCK",
        TESTS + "test_push_refusals.py::test_link_in_place_of_a_staged_file_is_refused",
    ),
    (
        PUSH + "target.py",
        "            os.replace(from_name, name, src_dir_fd=from_dir_fd, dst_dir_fd=dir_fd)",
        "            src = os.open(from_name, os.O_RDONLY, dir_fd=from_dir_fd)\n"
        "            dst = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=dir_fd)\n"
        "            while os.sendfile(dst, src, None, 1000):\n"
        "                pass",
        TESTS + "test_push_store.py::test_no_reader_ever_sees_half_a_file",
    ),
    (
        PUSH + "store.py",
        "leftover.newest_ns > before_ns",
        "leftover.newest_ns >= before_ns",
        TESTS + "test_push_store.py::test_sweep_removes_old_leftovers_that_nobody_has_open",
    ),
    (
        "src/fanfold/push/receiving.py",
        "        if self.store.is_rechecked:\n",
        "        if False:\n",
        "tests/unit/push/test_push_receiving.py"
        "::test_a_node_answers_while_it_reads_back_what_it_got[True]",
    ),
    (
        "src/fanfold/push/sending.py",
        "if self._is_stuck(now_ps, bit, peer, lacking):",
        "if self._is_stuck(0, bit, peer, lacking):",
        "tests/unit/push/test_push_sending.py"
        "::test_who_has_everything_and_never_ends_is_given_up",
    ),
    (
        "src/fanfold/push/sending.py",
        "peer.whole_ps = NEVER  # it reads back what it has",
        "pass",
        "tests/unit/push/test_push_sending.py"
        "::test_who_reads_back_what_it_has_may_take_its_time",
    ),
    (
        "src/fanfold/push/sending.py",
        "if peer.n_restarts > MAX_RESTARTS:",
        "if peer.n_restarts > MAX_RESTARTS + 1:",
        "tests/unit/push/test_push_sending.py"
        "::test_who_forgets_the_push_again_and_again_is_given_up",
    ),
    (
        "src/fanfold/push/sending.py",
        "report.body[:SLICE_BYTES]",
        "report.body",
        "tests/unit/push/test_push_sending.py::test_a_slice_longer_than_it_may_be_is_cut",
    ),
    (
        "src/fanfold/push/receiving.py",
        "if found is not None and self._has(what, block):",
        "if found is not None:",
        "tests/unit/push/test_push_receiving.py::test_a_row_that_changed_hands_claims_no_block",
    ),
    (
        "src/fanfold/push/sending.py",
        "gap_ps = min(max(2 * self._ask_gap_ps, FIRST_ASK_PS), ASK_PS)",
        "gap_ps = ASK_PS",
        "tests/unit/push/test_push_sending.py"
        "::test_who_owes_a_word_is_asked_soon_and_then_less_and_less_often",
    ),
    (
        "src/fanfold/push/sending.py",
        "self.manifest_fan.remove(1 << bit)  # it has it",
        "pass  # it has it",
        "tests/unit/push/test_push_sending.py::test_who_is_ready_has_the_manifest",
    ),
    (
        "src/fanfold/push/sending.py",
        "            self.manifest_fan.nudge(now_ps, bit)\n",
        "            pass\n",
        "tests/unit/push/test_push_sending.py"
        "::test_who_knows_nothing_of_the_push_gets_the_manifest_again",
    ),
    (
        "src/fanfold/push/sending.py",
        "                self.data_fan.nudge(now_ps, bit)\n",
        "                pass\n",
        "tests/unit/push/test_push_sending.py"
        "::test_who_lacks_data_at_the_end_says_so_when_asked_and_gets_it",
    ),
    (
        "src/fanfold/push/sending.py",
        "quiet |= fan.lacking() if fan.is_quiet(now_ps) else 0",
        "quiet |= fan.lacking()",
        "tests/unit/push/test_push_sending.py"
        "::test_who_lacks_data_at_the_end_says_so_when_asked_and_gets_it",
    ),
    (
        "src/fanfold/push/sending.py",
        "not self._is_whole, 0, now_ps\n",
        "not self._is_whole, 0, self._ask_ps\n",
        "tests/unit/push/test_push_sending.py"
        "::test_the_last_words_are_asked_for_when_nobody_lacks_anything",
    ),
    (
        "src/fanfold/live/warm.py",
        "        repeat_at(node.collect, 0, 0, 0)\n",
        "",
        "tests/unit/live/test_live_warm.py::test_kernels_that_nodes_call_are_loaded_before",
    ),
)
