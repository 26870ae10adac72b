"""One result of several fans: receivers by the word that counts, links once, sums."""

import msgspec

from fanfold.push.relayed import Ended, joined
from fanfold.push.result import LinkResult, PushResult, ReceiverResult


def row(name, state="verified", seconds=1.0, error=""):
    return ReceiverResult(
        name, state, "ab", seconds if state == "verified" else 0.0, error, False
    )


def link(src, dst, n):
    return LinkResult(src, dst, n, n * 100, n, n * 100, 0, 0, 1)


def fan(source, receivers, links):
    return PushResult(
        *("m.bin", source, 2, 10**6, 4, 1.2, 0.8, 10**7, receivers, links),
        feedback={"at_source": 4},
        repairs={"packets": 1, "bytes": 100},
        source_link_bytes=1000,
        drops={},
        suspects=[],
        warnings=["odd"],
        cpu_seconds=0.5,
    )


FIRST = fan("h0", [row("h1"), row("h3", seconds=0.9)], [link("h0", "b0", 10)])
ASKED = dict.fromkeys(["h1", "h3", "h4", "h5"], "nobody sent")


def test_receivers_have_the_word_that_counts_in_the_order_asked_for():
    by_relay = fan("h3", [row("h5", seconds=2.0), row("h4", "failed", error="dead")], [])
    again = fan("h0", [row("h4", seconds=0.5)], [])
    late = fan("h0", [row("h5", "failed", error="no")], [])
    fans = [Ended(1.0, by_relay), Ended(3.5, again), Ended(5.0, late)]
    whole = joined(FIRST, fans, [], ASKED, 4.1)
    assert [(r.id, r.state, r.seconds) for r in whole.receivers] == [
        ("h1", "verified", 1.0),
        ("h3", "verified", 0.9),
        ("h4", "verified", 4.0),
        ("h5", "verified", 3.0),
    ]
    assert whole.is_complete()
    assert whole.seconds == 4.1
    assert whole.data_seconds == 4.0 - (1.0 - 0.8)  # the last one, from the first DATA on
    assert whole.goodput_bps == 8 * 10**6 * 10 // 38


def test_who_no_fan_tells_of_has_failed():
    whole = joined(FIRST, [Ended(1.0, fan("h3", [row("h4")], []))], [], ASKED, 2.5)
    last = whole.receivers[-1]
    assert (last.id, last.state, last.error) == ("h5", "failed", "nobody sent")
    assert not whole.is_complete()


def test_links_and_counts_are_of_all_fans():
    second = fan("h3", [row("h4"), row("h5")], [link("h0", "b0", 5), link("h3", "b1", 7)])
    whole = joined(FIRST, [Ended(1.0, second)], [], ASKED, 2.5)
    assert [(x.src, x.dst, x.packets, x.predicted_bytes) for x in whole.links] == [
        ("h0", "b0", 15, 1500),
        ("h3", "b1", 7, 700),
    ]
    assert whole.feedback == {"at_source": 8}
    assert whole.repairs == {"packets": 2, "bytes": 200}
    assert whole.source_link_bytes == 1000  # the relay has another link
    assert whole.warnings == ["odd"]
    assert whole.cpu_seconds == 1.0
    shown = msgspec.to_builtins(whole)
    assert shown["relays"] == []
    assert "relays" not in msgspec.to_builtins(FIRST)
