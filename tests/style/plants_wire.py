"""Planted faults of the wire layer: (file, old text, new text, test that must fail).

`old` stands in the file exactly once.
"""

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/wire/bitstring.py",
        "return 1 << (bsl + 5)",
        "return 1 << (bsl + 6)",
        "tests/unit/wire/test_wire_bitstring.py::test_code_is_not_a_length",
    ),
    (
        "src/fanfold/wire/bitstring.py",
        "divmod(bfr_id - 1, n_bits)",
        "divmod(bfr_id, n_bits)",
        "tests/unit/wire/test_wire_bitstring.py::test_bfr_id_has_one_place",
    ),
    (
        "src/fanfold/wire/bitstring.py",
        'return bitstring.to_bytes(bitstring_bytes(bsl), "big")',
        'return bitstring.to_bytes(bitstring_bytes(bsl), "little")',
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_written_byte_for_byte",
    ),
    (
        "src/fanfold/wire/bitstring.py",
        "[bitstring >> (WORD_BITS * word) & WORD_MASK for word in range(n_words)]",
        "[bitstring >> (WORD_BITS * word) & WORD_MASK for word in reversed(range(n_words))]",
        "tests/unit/wire/test_wire_bitstring.py::test_word_zero_holds_positions_one_to_64",
    ),
    (
        "src/fanfold/wire/bitstring.py",
        "if bfr_id > MAX_BFR_ID:",
        "if bfr_id > MAX_BFR_ID + 1:",
        "tests/unit/wire/test_wire_bitstring.py::test_bit_without_a_bfr_id_is_refused",
    ),
    (
        "src/fanfold/wire/bier.py",
        "bsl = bs.split_bift_id(bift_id).bsl  # never from the BSL field: RFC 8296 2.1.2",
        "bsl = second >> 20 & 0xF",
        "tests/unit/wire/test_wire_headers.py"
        "::test_length_comes_from_the_bift_id_even_when_the_field_lies",
    ),
    (
        "src/fanfold/wire/bier.py",
        "    check_version(second)\n",
        "",
        "tests/unit/wire/test_wire_headers.py::test_no_version_but_zero",
    ),
    (
        "src/fanfold/wire/bier.py",
        "    if len(buf) < end:\n",
        "    if len(buf) < end - 1:\n",
        "tests/property/test_codec_laws.py::test_header_cut_at_every_length_is_truncated[bier]",
    ),
    (
        "src/fanfold/wire/bier.py",
        "first = header.bift_id << 12 | 1 << 8 |",
        "first = header.bift_id << 12 |",
        "tests/property/test_codec_laws.py::test_fields_are_the_bits_the_table_says[bier]",
    ),
    (
        "src/fanfold/wire/bier.py",
        "dscp=third >> 22 & 0x3F",
        "dscp=third >> 22 & 0x1F",
        "tests/property/test_codec_laws.py::test_value_comes_back[bier]",
    ),
    (
        "src/fanfold/wire/bier_mpls.py",
        "    if second >> 28 != NIBBLE:\n",
        "    if second >> 28 == 0:\n",
        "tests/unit/wire/test_wire_headers.py::test_mpls_form_has_nibble_five",
    ),
    (
        "src/fanfold/wire/inner.py",
        "udp_sum = internet_checksum(covered) or 0xFFFF",
        "udp_sum = internet_checksum(covered)",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_written_byte_for_byte"
        "[inner/udp_sum_of_zero_is_sent_as_ffff]",
    ),
    (
        "src/fanfold/wire/inner.py",
        'if buf[26:28] == b"\\0\\0":',
        "if not buf:",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[inner/refused_udp_not_checked]",
    ),
    (
        "src/fanfold/wire/inner.py",
        "    if ones_sum(pseudo + buf[IP_BYTES:]) != 0xFFFF:\n",
        "    if ones_sum(pseudo + buf[IP_BYTES:]) == 0:\n",
        "tests/unit/wire/test_wire_headers.py::test_every_single_bit_error_below_bier_is_caught",
    ),
    (
        "src/fanfold/wire/checksum.py",
        "number <<= 8",
        "number <<= 0",
        "tests/unit/wire/test_wire_headers.py::test_checksums_are_those_of_the_book",
    ),
    (
        "src/fanfold/wire/fan.py",
        "    if psn >= n_psn:\n",
        "    if psn > n_psn:\n",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[fan/refused_psn_is_n_psn]",
    ),
    (
        "src/fanfold/wire/fan.py",
        "first_ttl, flags & 7, round_)",
        "first_ttl, flags, round_)",
        "tests/property/test_codec_laws.py"
        "::test_ignored_bits_change_nothing_and_go_out_as_said[fan]",
    ),
    (
        "src/fanfold/wire/fan.py",
        "    112-127    stride     payload bytes",
        "    112-126    stride     payload bytes",
        "tests/property/test_codec_laws.py::test_rows_cover_every_bit_once[fan]",
    ),
    (
        "src/fanfold/wire/feedback.py",
        "    if feedback.done & ~feedback.heard:\n",
        "    if feedback.done and not feedback.heard:\n",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[feedback/refused_done_outside_heard]",
    ),
    (
        "src/fanfold/wire/feedback.py",
        "if not last < row.psn < feedback.n_psn:",
        "if not last <= row.psn < feedback.n_psn:",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[feedback/refused_rows_not_rising]",
    ),
    (
        "src/fanfold/wire/feedback.py",
        "        queue=queue,\n        room=room,\n",
        "        queue=room,\n        room=queue,\n",
        "tests/unit/wire/test_wire_vectors.py::test_vector_decodes_to_its_fields"
        "[feedback/bsl64_one_gap]",
    ),
    (
        "src/fanfold/wire/feedback.py",
        "        if row.lacking & ~feedback.heard:\n",
        "        if row.lacking and not feedback.heard:\n",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[feedback/refused_row_outside_heard]",
    ),
    (
        "src/fanfold/wire/ask.py",
        "    require_end(HEADER, buf, FIXED_BYTES)\n    _, what",
        "    buf = buf[:FIXED_BYTES]\n    _, what",
        "tests/property/test_codec_laws.py::test_message_with_more_bytes_is_trailing[ask]",
    ),
    (
        "src/fanfold/wire/report.py",
        "    if len(body) > MAX_TEXT_BYTES:\n",
        "    if len(body) > MAX_TEXT_BYTES + 1:\n",
        "tests/unit/wire/test_wire_headers.py::test_failure_text_ends_at_512_bytes",
    ),
    (
        "src/fanfold/wire/close.py",
        "if reason > CloseReason.ABORTED:",
        "if reason > CloseReason.ABORTED + 1:",
        "tests/unit/wire/test_wire_vectors.py::test_vector_is_refused_with_its_reason"
        "[close/refused_reason_two]",
    ),
    (
        "src/fanfold/wire/packet.py",
        "port = datagram.dport if is_down else datagram.sport",
        "port = datagram.sport if is_down else datagram.dport",
        "tests/unit/wire/test_wire_packet.py"
        "::test_packet_comes_back_with_its_port_on_the_side_of_its_kind",
    ),
    (
        "src/fanfold/wire/packet.py",
        "            if len(payload) > data.stride:\n",
        "            if len(payload) > data.stride + 1:\n",
        "tests/unit/wire/test_wire_packet.py::test_payload_ends_at_the_stride",
    ),
    (
        "src/fanfold/wire/pcapng.py",
        "high, low = at_ns >> 32, at_ns & 0xFFFFFFFF",
        "high, low = at_ns >> 31, at_ns & 0xFFFFFFFF",
        "tests/unit/wire/test_wire_packet.py::test_capture_comes_back",
    ),
    (
        "src/fanfold/wire/pcapng.py",
        "_OPT_EPB_FLAGS = 2",
        "_OPT_EPB_FLAGS = 3",
        "tests/unit/wire/test_wire_packet.py::test_capture_blocks_have_the_bytes_of_the_draft",
    ),
    (
        "src/fanfold/wire/fanfold.lua",
        "tree:add(f.room, buf(14, 1))",
        "tree:add(f.room, buf(15, 1))",
        "tests/live/test_tshark.py::test_fanfold_fields_are_the_codecs",
    ),
    (
        "docs/wire/feedback.md",
        "| 104-111 | queue |",
        "| 104-112 | queue |",
        "tests/property/test_codec_laws.py"
        "::test_pages_and_docstrings_have_the_same_tables[feedback]",
    ),
)
