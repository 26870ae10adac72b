"""The planner: every placement and encoding, one pick, a reason for each that lost."""

import pytest
from encoding_world import ground_of

from fanfold.encodings.encoding_row import EncodingRow
from fanfold.encodings.planner import NEAR_PPM, plan
from fanfold.encodings.size_sweep import SizeRow, paying_from, sizes_up_to, sweep
from fanfold.encodings.survey import Options, survey
from fanfold.errors import ConfigError

LAYER = ground_of("leaf-spine:leaves=16,spines=8,hosts=1024")
SILICON = Options(limit_bits=256)
SPREAD = range(0, 1024, 5)
"""A job of 205 hosts, every fifth: it touches all four sets of naive numbering."""


def planned(members, *, payload_bytes=7392, options=SILICON, **more):
    return plan(LAYER.net, LAYER.routes, members, payload_bytes, options=options, **more)


def test_the_planner_beats_naive_numbering():
    """205 BFR-ids of one set instead of four: a quarter of the packets, and fewer bytes."""
    found = planned(SPREAD, encodings=["bier-256"])
    by_kind = {c.row.placement: c.row for c in found.candidates}
    assert found.picked == by_kind["job"]
    assert (by_kind["job"].n_packets, by_kind["naive"].n_packets) == (1, 4)
    assert by_kind["job"].source_bytes * 4 == by_kind["naive"].source_bytes
    assert by_kind["job"].link_bytes < by_kind["naive"].link_bytes
    assert by_kind["job"].link_bytes == by_kind["job"].tree_links * (7392 + 44)


def test_a_candidate_is_what_a_survey_says():
    found = planned(SPREAD, encodings=["bier-256", "rts"])
    jobs = ([0, *SPREAD],)
    for candidate in found.candidates:
        if candidate.row.placement:
            options = SILICON._replace(placement=candidate.row.placement, jobs=jobs)
            (row,) = survey(
                *(LAYER.net, LAYER.routes, SPREAD, 7392),
                encodings=[candidate.row.encoding],
                options=options,
            )
            assert row == candidate.row


def test_every_candidate_has_one_line_that_says_why():
    found = planned(SPREAD, encodings=["bier", "bier-h", "elmo", "rts", "id-list", "unicast"])
    assert found.candidates[0].row == found.picked
    told = [(c.row, c.verdict) for c in found.candidates]
    assert [verdict for _, verdict in told].count("picked") == 1
    able = [(row, verdict) for row, verdict in told if not row.refusal]
    least = min(row.link_bytes for row, _ in able)
    for row, verdict in able:
        is_near = (row.link_bytes - least) * 10**6 <= NEAR_PPM * least
        assert is_near != ("% more bytes" in verdict)
    assert all(
        verdict.startswith("cannot: BitStrings of") for row, verdict in told if row.refusal
    )
    names = [row.encoding for row, _ in told if row.refusal]
    assert names == ["bier-512", "bier-1024", "bier-2048", "bier-4096"]  # once, not three times


def test_near_the_least_bytes_fewer_packets_decide_then_fewer_rows_read():
    found = planned(SPREAD, encodings=["bier-256", "elmo"], options=Options())
    assert found.picked.encoding == "elmo"  # a rule of the header, not a row for each copy
    (lost,) = [c for c in found.candidates if c.row.placement == "job"]
    assert lost.row.n_packets == found.picked.n_packets == 1
    most = lost.row.most_lookups
    assert lost.verdict.endswith(f"rows read of one packet: {most} to 1")


def test_a_group_may_leave_rows_in_switches_only_if_asked():
    options = Options(limit_bits=120)
    members = [h for h in range(1, 1024, 3) if h % 7]
    found = planned(members, encodings=["elmo-s", "unicast"], options=options)
    assert found.picked.encoding == "unicast"
    assert "rows for the group in switches" in found.candidates[1].verdict
    found = planned(members, encodings=["elmo-s", "unicast"], options=options, may_store=True)
    assert found.picked.encoding == "elmo-s"


def test_copies_are_picked_where_headers_cost_more():
    found = planned([100, 300], payload_bytes=40, encodings=["unicast", "bier-256"])
    assert found.picked.encoding == "unicast"


def test_no_plan_where_nothing_can():
    with pytest.raises(ConfigError, match="bier-512: cannot: BitStrings of 512 bits"):
        planned([1, 2], encodings=["bier-512"])


def test_a_sweep_tells_from_which_size_on_an_encoding_pays():
    """300 bytes a link against copies of 256: not for one, from four on."""
    order = [h * 37 % 1024 for h in range(1, 300)]
    found = sweep(
        LAYER.net, LAYER.routes, order, 256, encodings=["bier-256", "bier-4096", "rts"]
    )
    sizes = [row.n_members for row in found.sizes]
    assert sizes == [1, 4, 16, 64, 256, 299]
    for size_row in found.sizes:
        rows = {row.encoding: row for row in size_row.rows}
        assert set(rows) == {"unicast", "bier-256", "bier-4096", "rts"}
        assert all(row.n_members == size_row.n_members for row in rows.values())
        least = min(row.link_bytes for row in rows.values())
        assert rows[size_row.cheapest].link_bytes == least
    for name in ("bier-256", "bier-4096", "rts"):
        pays = [
            size_row.n_members
            for size_row in found.sizes
            for row in size_row.rows
            if row.encoding == name and row.link_bytes <= row.unicast_link_bytes
        ]
        assert pays == [n for n in sizes if n >= found.beats[name] > 0]
    assert 1 < found.beats["bier-256"] < found.beats["bier-4096"]


def test_it_pays_only_from_where_it_pays_at_every_larger_size():
    def sized(n, *link_bytes):
        rows = [
            EncodingRow(f"e{i}", link_bytes=b, unicast_link_bytes=10)
            for i, b in enumerate(link_bytes)
        ]
        return SizeRow(n, (*rows, EncodingRow("cannot", refusal="why")), "e0")

    found = [sized(1, 11, 9, 9, 9), sized(4, 9, 11, 10, 9), sized(9, 9, 9, 9, 11)]
    assert paying_from(found) == {"e0": 4, "e1": 9, "e2": 1, "e3": 0, "cannot": 0}


@pytest.mark.parametrize(
    ("n", "sizes"), [(1, [1]), (4, [1, 4]), (5, [1, 4, 5]), (64, [1, 4, 16, 64])]
)
def test_sizes_end_with_all(n, sizes):
    assert sizes_up_to(n) == sizes
