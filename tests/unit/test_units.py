import pytest

from fanfold.errors import ConfigError
from fanfold.units import (
    NEVER,
    format_duration,
    format_rate,
    format_size,
    parse_duration,
    parse_probability,
    parse_rate,
    parse_size,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_size, "0", 0),
        (parse_size, "1500", 1500),
        (parse_size, "512MB", 512_000_000),
        (parse_size, "1GiB", 1 << 30),
        (parse_size, " 4 KiB ", 4096),
        (parse_size, "1.5kB", 1500),
        (parse_size, "1.5KB", 1500),
        (parse_size, f"{NEVER}B", 2**63 - 1),
        (parse_rate, "5Gbps", 5 * 10**9),
        (parse_rate, "400 Gbit/s", 400 * 10**9),
        (parse_rate, "2.5Gb/s", 2_500_000_000),
        (parse_rate, "1bit/s", 1),
        (parse_rate, "1Tbps", 10**12),
        (parse_duration, "5us", 5 * 10**6),
        (parse_duration, "5 µs", 5 * 10**6),
        (parse_duration, "2s", 2 * 10**12),
        (parse_duration, "1.5 ms", 1_500_000_000),
        (parse_duration, "640ps", 640),
        (parse_duration, "0.001ns", 1),
        (parse_duration, "2min", 120 * 10**12),
        (parse_duration, "1h", 3600 * 10**12),
        (parse_probability, "0", 0),
        (parse_probability, "1", 10**9),
        (parse_probability, "0.01", 10**7),
        (parse_probability, "1%", 10**7),
        (parse_probability, "100 %", 10**9),
        (parse_probability, "50ppm", 50_000),
        (parse_probability, "0.000000001", 1),
    ],
)
def test_text_becomes_an_exact_integer(parse, text, value):
    got = parse(text, "flag")
    assert got == value
    assert type(got) is int


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_size, ""),
        (parse_size, "MB"),
        (parse_size, "-1MB"),
        (parse_size, "512Mb"),  # bits are no size
        (parse_size, "1e3"),
        (parse_size, "0.5B"),
        (parse_size, "1.0001kB"),
        (parse_size, "1,5kB"),
        (parse_size, f"{2**63}B"),
        (parse_size, "٣MB"),  # digits of another script
        (parse_size, "1" * 50),
        (parse_rate, "0Gbps"),
        (parse_rate, "5"),
        (parse_rate, "5GBps"),  # bytes are no rate here
        (parse_rate, "0.1bps"),
        (parse_duration, "5"),
        (parse_duration, "0.5ps"),
        (parse_duration, "1.00000000000000000000000000000001s"),
        (parse_duration, "5 S"),
        (parse_duration, "2563h"),
        (parse_probability, "101%"),
        (parse_probability, "1.000000001"),
        (parse_probability, "0.0000000001"),
        (parse_probability, "half"),
    ],
)
def test_what_is_no_whole_quantity_is_refused_by_field(parse, text):
    with pytest.raises(ConfigError) as caught:
        parse(text, "push.chunk")
    assert (caught.value.field, caught.value.got) == ("push.chunk", text)
    allowed = caught.value.allowed
    assert "such as" in allowed or "in 1.." in allowed or "did you mean" in allowed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_size(0), "0 B"),
        (format_size(999), "999 B"),
        (format_size(1000), "1 kB"),
        (format_size(1024), "1 KiB"),
        (format_size(512 << 20), "512 MiB"),
        (format_size(512_000_000), "512 MB"),
        (format_size((512 << 20) + 1), "536.871 MB"),
        (format_size(999_999_999), "1 GB"),
        (format_size(-1500), "-1.5 kB"),
        (format_rate(400 * 10**9), "400 Gbit/s"),
        (format_rate(1), "1 bit/s"),
        (format_rate(5_000 * 10**12), "5000 Tbit/s"),
        (format_duration(640), "640 ps"),
        (format_duration(5 * 10**6), "5 us"),
        (format_duration(1_234_567_890_123), "1.235 s"),
        (format_duration(3600 * 10**12), "3600 s"),
    ],
)
def test_text_for_people(text, expected):
    assert text == expected


@pytest.mark.parametrize("count", [0, 1, 12, 999])
def test_whole_multiples_come_back_exactly(count):
    for unit in (1, 1000, 10**6, 10**9, 10**12, 2**10, 2**20, 2**30, 2**40):
        assert parse_size(format_size(count * unit), "f") == count * unit
    for unit in (1, 10**3, 10**6, 10**9, 10**12):
        assert parse_duration(format_duration(count * unit), "f") == count * unit
        if count:
            assert parse_rate(format_rate(count * unit), "f") == count * unit
