"""Colours of the report: names on the page, values in files.

A chart names a colour as a variable of the page, ``var(--ink)``, so that one chart serves
light, dark and paper; what is written as SVG and PNG has the light values in their place.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
FILE_FONT = "sans-serif"
FONT_SIZE = 13

PAPER: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#0f1419"),
    "panel": ("#f6f8fa", "#171d24"),
    "ink": ("#1b1f24", "#e8edf2"),
    "soft": ("#57606a", "#a3adb8"),
    "idle": ("#c6ced6", "#39434e"),
    "rule": ("#d5dbe1", "#313943"),
    "accent": ("#b93c0b", "#ff9158"),
    "down": ("#1d4fd8", "#7da6ff"),
    "good": ("#11632b", "#6ddc8c"),
    "good-back": ("#d7f2de", "#123322"),
    "moderate": ("#7a4b00", "#f0bf5a"),
    "moderate-back": ("#fdedc8", "#392a0c"),
    "poor": ("#a3161d", "#ff948c"),
    "poor-back": ("#fde0de", "#401818"),
    "heat-0": ("#b6c2cf", "#39454f"),
    "heat-1": ("#8fc1d4", "#2f6377"),
    "heat-2": ("#55a5a0", "#2f8a86"),
    "heat-3": ("#c9a227", "#c2a42f"),
    "heat-4": ("#e0701b", "#ee8a3c"),
    "heat-5": ("#b3161d", "#ff5f57"),
}
"""Name of a colour: its value on a light and on a dark page."""
CURVES = (
    ("#4b545e", "#b6c0ca"),
    ("#d1420a", "#ff8f57"),
    ("#1d4fd8", "#7da6ff"),
    ("#12792f", "#58cf79"),
    ("#6f35d6", "#b294ff"),
    ("#b3196b", "#ff8cc6"),
    ("#0b7a75", "#4fd0c8"),
    ("#8a6d00", "#dcc04a"),
)
"""Of lines that are no schemes: variables c-0, c-1 and so on."""
N_HEATS = 6


class Mark(NamedTuple):
    """How a scheme looks everywhere: light and dark colour, point, dashes."""

    light: str
    dark: str
    shape: str
    dash: tuple[int, int]


_SOLID, _DASHED, _DOTTED = (1, 0), (7, 3), (2, 2)
MARKS: Mapping[str, Mark] = {
    "fanfold": Mark("#d1420a", "#ff8f57", "circle", _SOLID),
    "bier": Mark("#1d4fd8", "#7da6ff", "square", _SOLID),
    "unicast": Mark("#4b545e", "#b6c0ca", "cross", _SOLID),
    "direct": Mark("#76818c", "#8e99a4", "diamond", _DOTTED),
    "ring": Mark("#12792f", "#58cf79", "triangle-up", _SOLID),
    "chain": Mark("#5f7d00", "#a8cf3f", "triangle-down", _DASHED),
    "binary-tree": Mark("#0b7a75", "#4fd0c8", "diamond", _SOLID),
    "double-binary-tree": Mark("#0579a0", "#52c4ee", "triangle-right", _DASHED),
    "halving-doubling": Mark("#8a6d00", "#dcc04a", "triangle-left", _DOTTED),
    "parameter-server": Mark("#86563d", "#d4a386", "cross", _DASHED),
    "sharp": Mark("#3d6b86", "#86b7d4", "circle", _DASHED),
    "pim-sm": Mark("#6f35d6", "#b294ff", "square", _DASHED),
    "pim-dm": Mark("#9a3ad0", "#d39bff", "triangle-down", _DOTTED),
    "bidir-pim": Mark("#4f3aa8", "#9d90f2", "triangle-up", _DASHED),
    "mldp": Mark("#b3196b", "#ff8cc6", "diamond", _SOLID),
    "mldp-p2mp": Mark("#b3196b", "#ff8cc6", "diamond", _SOLID),
    "mldp-mp2mp": Mark("#8d2f5e", "#dd8fb5", "triangle-right", _DASHED),
    "sr-p2mp": Mark("#87420f", "#d99a68", "square", _DOTTED),
}
_OTHER = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_OTHER_COLOURS = (
    ("#6b6b1f", "#c9c96a"),
    ("#8a3d3d", "#d99090"),
    ("#3d864f", "#86d49a"),
    ("#7a3d86", "#ca86d4"),
)


def mark_of(scheme: str, schemes: tuple[str, ...]) -> Mark:
    """Look of a scheme; one without a row takes it from its place among those without."""
    if scheme in MARKS:
        return MARKS[scheme]
    place = [s for s in schemes if s not in MARKS].index(scheme)
    light, dark = _OTHER_COLOURS[place % len(_OTHER_COLOURS)]
    dash = (_SOLID, _DASHED, _DOTTED)[place // len(_OTHER_COLOURS) % 3]
    return Mark(light, dark, _OTHER[place % len(_OTHER)], dash)


def colours(schemes: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Every variable of a page: light and dark value."""
    own = {f"s-{s}": mark_of(s, schemes)[:2] for s in schemes}
    curves = {f"c-{i}": pair for i, pair in enumerate(CURVES)}
    return dict(PAPER) | curves | own


def var(name: str) -> str:
    """A colour of the page."""
    return f"var(--{name})"


def in_light(text: str, schemes: tuple[str, ...]) -> str:
    """The same text with the light value of every colour, and a font that every viewer has."""
    for name, (light, _) in colours(schemes).items():
        text = text.replace(var(name), light)
    return text.replace(FONT, FILE_FONT)


def chart_config() -> dict[str, Any]:
    """Vega-Lite's config: fonts and colours of all that is no data."""
    return {
        "background": "transparent",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {
            "labelColor": var("soft"),
            "titleColor": var("soft"),
            "titleFontWeight": "normal",
            "labelFontSize": FONT_SIZE,
            "titleFontSize": FONT_SIZE,
            "gridColor": var("rule"),
            "domainColor": var("rule"),
            "tickColor": var("rule"),
            "labelLimit": 260,
        },
        "legend": {
            "labelColor": var("ink"),
            "titleColor": var("soft"),
            "titleFontWeight": "normal",
            "labelFontSize": FONT_SIZE,
            "titleFontSize": FONT_SIZE,
            "symbolStrokeWidth": 2,
            "labelLimit": 260,
        },
        "text": {"color": var("ink"), "fontSize": FONT_SIZE},
    }
