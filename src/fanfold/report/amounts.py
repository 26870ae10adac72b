"""Values of metrics as text, and the axes that they are drawn on."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from fanfold.study.gap_table import NEVER_HERE
from fanfold.study.metric_catalog import metric_of
from fanfold.units import PS_PER_SECOND, format_duration, format_rate

PPM_OF_A_PERCENT = 10_000
PS_PER_HOUR = 3600 * PS_PER_SECOND


def format_value(metric: str, value: int) -> str:
    """A value of a metric for people."""
    if value == NEVER_HERE:
        return "never"
    form = _FORMS.get(metric_of(metric).unit)
    return form(value) if form else f"{value:,}"


def format_times(value: int, base: int) -> str:
    """How many times ``base`` a value is: "116 x", "1/4.35"; empty where either is nothing."""
    if base <= 0 or value <= 0:
        return ""
    if value == base:
        return "1 x"
    return f"{_share(value, base)} x" if value > base else f"1/{_share(base, value)}"


def _share(high: int, low: int) -> str:
    times = Fraction(high, low)
    digits = 0 if times >= 100 else 1 if times >= 10 else 2
    return _decimals(times, digits)


def _decimals(value: Fraction, digits: int = 2) -> str:
    text = f"{float(value):,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def better(metric: str) -> str:
    """Which way is better, as a sentence."""
    said = {"less": "Less is better.", "more": "More is better."}
    return said.get(metric_of(metric).better, "")


def capital(text: str) -> str:
    """The same text as a sentence starts."""
    return text[:1].upper() + text[1:]


def size_text(value: int) -> str:
    """Bytes in powers of a thousand throughout, so that a column has one kind of unit."""
    for unit, name in _SIZES:
        if value >= unit:
            return f"{_decimals(Fraction(value, unit), 3)} {name}"
    return f"{value} B"


def time_text(value: int) -> str:
    """Picoseconds for people: as elsewhere below an hour, then hours."""
    if abs(value) < PS_PER_HOUR:
        return format_duration(value)
    return f"{_decimals(Fraction(value, PS_PER_HOUR))} h"


_SIZES = ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_FORMS: Mapping[str, Callable[[int], str]] = {
    "ps": time_text,
    "GPU ps": lambda value: f"{time_text(value)} of GPUs",
    "bytes": size_text,
    "bit/s": format_rate,
    "ppm": lambda value: f"{_decimals(Fraction(value, PPM_OF_A_PERCENT))} %",
    "micro-USD": lambda value: f"{_decimals(Fraction(value, 10**6))} USD",
    "mJ": lambda value: f"{_decimals(Fraction(value, 1000))} J",
}
"""How a value is written, by unit."""


def _amount(value: str) -> str:
    """What Vega writes of a number: k, M and G for thousands, and 0.5, never 500m."""
    return f"format({value}, {value} < 1 ? '~r' : '~s')"


_SECONDS = "replace(format(datum.value / 1e12, '~s'), 'µ', 'u') + 's'"
PS_PER_MINUTE = 60 * PS_PER_SECOND
_LONG = {PS_PER_HOUR: "h", PS_PER_MINUTE: "min"}
AXES = {
    "ps": _SECONDS,
    "GPU ps": _SECONDS,
    "bytes": _amount("datum.value") + " + 'B'",
    "bit/s": _amount("datum.value") + " + 'bit/s'",
    "ppm": "format(datum.value / 1e4, '~r') + ' %'",
    "micro-USD": _amount("datum.value / 1e6") + " + ' USD'",
    "mJ": "format(datum.value / 1e3, '~s') + 'J'",
}
"""How Vega writes the numbers of an axis, by unit."""
PLAIN_AXIS = _amount("datum.value")


def unit_step(metric: str, high: int) -> int:
    """What ticks of an axis are multiples of: hours and minutes where times are so long."""
    if metric_of(metric).unit not in ("ps", "GPU ps"):
        return 1
    if high >= 2 * PS_PER_HOUR:
        return PS_PER_HOUR
    return PS_PER_MINUTE if high >= 200 * PS_PER_SECOND else 1


def axis_of(metric: str, unit: int = 1) -> str:
    """Expression that labels an axis of a metric; unit: of its long times, ``unit_step``."""
    plain = AXES.get(metric_of(metric).unit, PLAIN_AXIS)
    if unit not in _LONG:
        return plain
    long = f"format(datum.value / {unit}, ',~r') + ' {_LONG[unit]}'"
    return f"datum.value >= {unit} ? {long} : {plain}"


def label_of(metric: str) -> str:
    """A metric in a heading: its name without the unit that its values carry."""
    name = metric
    for tail in ("_gpu_ps", "_ps", "_bytes", "_pkts", "_ppm", "_bps", "_micro_usd", "_mj"):
        if metric.endswith(tail):
            name = metric.removesuffix(tail)
            break
    return HEADINGS.get(metric, name.replace("_", " "))


HEADINGS = {
    "time_all_ps": "until all have it",
    "time_p50_ps": "until half have it",
    "time_p99_ps": "until 99 % have it",
    "step_ps": "one step",
    "utilisation_ppm": "GPU utilisation",
    "idle_gpu_ps": "idle GPU time",
    "source_bytes": "busiest link of a source",
    "busiest_bytes": "busiest link",
    "fabric_bytes": "all links",
    "straggler_ps": "straggler spread",
    "egress_micro_usd": "price of egress",
    "energy_mj": "energy",
    "feedback_pkts": "feedback at the source",
    "feedback_per_kpkt": "feedback for 1,000 packets",
    "feedback_ps": "feedback latency",
    "reaction_ps": "congestion reaction",
    "repair_bytes": "sent again",
    "healthy_repair_bytes": "sent again on healthy links",
    "detect_ps": "fault noticed",
    "recover_ps": "fault mended",
    "gap_receivers": "receivers with a gap",
    "behind_receivers": "receivers behind the fault",
    "setup_ps": "set-up",
    "join_ps": "join",
    "change_msgs": "messages for a change",
    "change_writes": "table writes for a change",
    "header_bytes": "header",
    "header_ppm": "header share",
    "extra_copies_ppm": "extra copies",
    "idle_state_entries": "state off the paths",
    "control_msgs": "messages for set-up",
    "state_entries": "state in all routers",
    "most_entries": "state in the fullest router",
    "lookups_per_pkt": "lookups for a packet",
    "spread_ppm": "p99 over p50",
    "first_ps": "first layer",
    "durable_ps": "until durable",
    "saved_bytes": "saved on the busiest link",
    "egress_bytes": "egress",
    "wan_bytes": "between sites",
    "queue_bytes": "deepest queue",
    "goodput_bps": "goodput",
    "goodput_ppm": "goodput under loss",
    "named_ps": "fault named",
    "domain_ppm": "failure domain",
    "healthy_repair_ppm": "repairs on healthy links",
    "change_gap_ps": "delay of a second change",
    "leave_ps": "leave",
    "far_header_ppm": "header share, 65,536 hosts",
    "far_copies_ppm": "extra copies, 65,536 hosts",
    "lost_saving_ppm": "saving lost",
    "far_lost_saving_ppm": "saving lost, 65,536 hosts",
    "idle_state_ppm": "state off the paths",
    "idle_energy_mj": "energy of idle GPUs",
    "message_kinds": "kinds of messages",
    "state_kinds": "kinds of tables",
}
"""Of columns, where the name says too little."""
