"""What a site does next: its relay, another host that has it all, and at last the source."""

from fanfold.push.relay_course import RelayCourse, Send

HOSTS = ("h3", "h4", "h5", "h6")


def course():
    return RelayCourse("h0", "h3", ("h3", "h5", "h4", "h6"), HOSTS)


def test_the_relay_sends_once_it_is_verified():
    site = course()
    assert not site.is_over()
    assert site.on_relay(is_verified=True) == Send("h3", ("h4", "h5", "h6"))
    assert not site.is_over()
    assert site.on_end(["h4", "h5", "h6"]) is None
    assert site.is_over()
    assert site.left == []


def test_where_the_relay_is_lost_the_source_sends_and_a_late_word_changes_nothing():
    site = course()
    assert site.on_relay(is_verified=False) == Send("h0", ("h4", "h5", "h6"))
    assert site.on_relay(is_verified=True) is None
    assert site.on_end(["h5"]) == Send("h5", ("h4", "h6"))
    assert site.on_end([]) is None
    assert site.is_over()
    assert site.left == ["h4", "h6"]


def test_the_best_of_those_who_have_it_goes_on_then_the_source():
    site = course()
    site.on_relay(is_verified=True)
    assert site.on_end(["h4", "h5"]) == Send("h5", ("h6",))  # ranked before h4
    assert site.on_end([]) == Send("h4", ("h6",))
    assert site.on_end([]) == Send("h0", ("h6",))
    assert site.on_end([]) is None
    assert site.is_over()


def test_the_dead_send_nothing():
    site = course()
    site.on_relay(is_verified=True)
    site.on_dead("h5")
    assert site.on_end(["h5"]) == Send("h0", ("h4", "h6"))
