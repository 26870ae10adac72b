"""Refusals name the nearest form of what was typed, and only where it is near."""

import pytest

from fanfold.errors import ConfigError
from fanfold.ids import expand_nodes
from fanfold.impair import parse_impairment
from fanfold.nearest import nearest, one_of
from fanfold.units import (
    parse_duration,
    parse_probability,
    parse_rate,
    parse_size,
)

HOSTS = [f"h{i}" for i in range(9)]
COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce")


def said(call, *args) -> str:
    with pytest.raises(ConfigError) as raised:
        call(*args)
    return str(raised.value)


@pytest.mark.parametrize(
    ("got", "known", "near"),
    [
        ("allreduce", COLLECTIVES, "all_reduce"),
        ("All-Reduce", COLLECTIVES, "all_reduce"),
        ("reducescatter", COLLECTIVES, "reduce_scatter"),
        ("brodcast", COLLECTIVES, "broadcast"),
        ("psuh", ("push", "bfr", "lab"), "push"),
        ("zebra", COLLECTIVES, ""),
        ("pim", ("pim-sm", "pim-dm"), ""),
        ("fat", ("fat-tree", "star"), "fat-tree"),
        ("deepseek-v2", ("deepseek-v3", "llama3-70b"), "deepseek-v3"),
        ("leaf", ("leaf1", "h1"), "leaf1"),
        ("", HOSTS, ""),
        ("3", ("1", "2", "30"), ""),
        ("---", HOSTS, ""),
    ],
)
def test_the_nearest_word(got: str, known: tuple[str, ...], near: str) -> None:
    assert nearest(got, known) == near


def test_a_word_that_is_near_none_has_them_all() -> None:
    assert one_of("zebra", HOSTS[:2], ", or a file") == "h0, h1, or a file"
    assert one_of("H1", HOSTS[:2], what="a host") == "not a host; did you mean h1?"


def test_a_refusal_with_a_list_of_words_finds_the_nearest_by_itself() -> None:
    lists = str(ConfigError("--collective", "allreduce", "all, all_reduce, broadcast"))
    assert lists == "--collective: got 'allreduce'; did you mean all_reduce?"
    for got, allowed in (
        ("fil", "file, directory or safetensors model"),  # words about it, no list
        ("texts", "text"),
        (3, "1, 2, 30"),
        ("all_reduce", "all_reduce, broadcast"),  # that one, but not here
        ("x,y", "x, y"),
        ("nothing", "bothing, x"),
        ("h12", "h1, h2"),  # another host, not a slip of the hand
    ):
        assert str(ConfigError("f", got, allowed)) == f"f: got {got!r}, allowed: {allowed}"


@pytest.mark.parametrize(
    ("parse", "text", "near"),
    [
        (parse_size, "1M", "1MB or 1MiB"),
        (parse_size, "1m", "1MB or 1MiB"),
        (parse_size, "2.5G", "2.5GB or 2.5GiB"),
        (parse_size, "4K", "4kB or 4KiB"),
        (parse_size, "512mb", "512MB"),
        (parse_size, "512Mb", "512MB"),
        (parse_size, "1mib", "1MiB"),
        (parse_size, "1,5GB", "1.5GB"),
        (parse_size, "64MBytes", "64MB"),
        (parse_rate, "5G", "5Gbps"),
        (parse_rate, "5gbps", "5Gbps"),
        (parse_rate, "100 mbit", "100Mbit/s"),
        (parse_duration, "5 sec", "5s"),
        (parse_duration, "2 minutes", "2min"),
        (parse_duration, "1m", "1ms or 1min"),
        (parse_duration, "7MS", "7ms"),
        (parse_probability, "50PPM", "50ppm"),
    ],
)
def test_a_quantity_with_a_unit_that_there_is(parse, text: str, near: str) -> None:
    assert said(parse, text, "--x") == f"--x: got {text!r}; did you mean {near}?"
    for each in near.split(" or "):
        parse(each, "--x")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_rate, "5"),  # of what?
        (parse_duration, "5"),
        (parse_rate, "5GB/s"),  # bytes: eight times as many bits
        (parse_size, "1.5"),
        (parse_size, "x"),
        (parse_size, "-1M"),
        (parse_size, "1" * 50 + "M"),
        (parse_size, "0.0000001K"),
        (parse_probability, "200%"),
    ],
)
def test_no_guess_where_several_things_may_be_meant(parse, text: str) -> None:
    assert "such as" in said(parse, text, "--x")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("h1-h3", "h1-3"),
        ("h1..3", "h1-3"),
        ("h1...h3", "h1-3"),
        ("h1:h3", "h1-3"),
        ("h1;h3", "h1,h3"),
        ("h1 h3", "h1,h3"),
        ("H1", "h1"),
        ("leaf1-leaf2", "leaf1-2"),
    ],
)
def test_a_list_of_nodes_in_another_form_is_known(text: str, near: str) -> None:
    known = [*HOSTS, "leaf1", "leaf2"]
    assert said(expand_nodes, text, known, "--to") == (
        f"--to: got {text!r}; did you mean {near}?"
    )
    expand_nodes(near, known, "--to")


@pytest.mark.parametrize("text", ["h1-h12", "h3-h1", "h1-leaf2", "h99"])
def test_a_list_of_nodes_that_are_not_there_is_not_offered(text: str) -> None:
    assert "allowed" in said(expand_nodes, text, HOSTS, "--to")


def test_a_mishap_is_offered_with_its_value() -> None:
    assert said(parse_impairment, "dorp=1%", set(), "--impair") == (
        "--impair: got 'dorp=1%'; did you mean drop=1%?"
    )
