"""The page: sections of text, tables and figures, filled into one file that needs no other."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import jinja2
import vl_convert

from fanfold.report.figure import Figure
from fanfold.report.replay import Replay
from fanfold.report.replay_svg import drawing, frames_json
from fanfold.report.tables import Grid
from fanfold.report.theme import FONT, colours

_PACKAGE = "fanfold.report"
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


class Tile(NamedTuple):
    """One number in large."""

    what: str
    big: str
    note: str


class Table(NamedTuple):
    """A grid, and whether it is folded away at first."""

    grid: Grid
    is_folded: bool = False


class Code(NamedTuple):
    """Text to copy."""

    what: str
    text: str


class Section(NamedTuple):
    """One part of the page, in the order of its fields."""

    name: str
    title: str
    verdict: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    intro: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    replay: Replay | None = None
    grids: Sequence[Table] = ()
    code: Sequence[Code] = ()


class Head(NamedTuple):
    """What stands above the sections."""

    kind: str
    name: str
    title: str
    facts: Sequence[tuple[str, str]]
    version: str
    seed: int


def render(head: Head, sections: Sequence[Section], schemes: tuple[str, ...]) -> str:
    """The page as HTML."""
    figures = [figure for section in sections for figure in section.figures]
    replays = [section.replay for section in sections if section.replay]
    frames = frames_json(replays[0]).decode() if replays else "{}"
    shown = [
        {**section._asdict(), "replay": _replay(section.replay) if section.replay else None}
        for section in sections
    ]
    return _template().render(
        **head._asdict(),
        sections=shown,
        css=_variables(schemes) + _part("page.css"),
        specs=_inert(json.dumps({f.name: f.spec for f in figures}, sort_keys=True)),
        frames=_inert(frames),
        vega=_vega(),
        script=_part("page.js"),
    )


def _replay(replay: Replay) -> dict[str, Any]:
    return {
        "drawing": drawing(replay),
        "title": replay.title,
        "caption": replay.caption,
        "last": len(replay.frames),
        "is_grouped": replay.layout.is_grouped,
    }


@cache
def _template() -> jinja2.Template:
    world = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    return world.from_string(_part("page.html.j2"))


@cache
def _part(name: str) -> str:
    return (resources.files(_PACKAGE) / name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, which cannot end the element around it."""
    bundle: str = vl_convert.javascript_bundle(_SNIPPET)
    return bundle.replace("</script", "<\\/script")


def _inert(text: str) -> str:
    """JSON that no parser of HTML takes for an end of the element around it."""
    return text.replace("<", "\\u003c")


def _variables(schemes: tuple[str, ...]) -> str:
    """Colours as variables: light, dark by wish of the reader or of the system, paper."""
    values = colours(schemes)
    light = _rows({name: pair[0] for name, pair in values.items()})
    dark = _rows({name: pair[1] for name, pair in values.items()})
    return (
        f":root{{--font:{FONT};color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root[data-theme],:root:not([data-theme=light])"
        f"{{color-scheme:light;{light}}}}}\n"
    )


def _rows(values: Mapping[str, Any]) -> str:
    return "".join(f"--{name}:{value};" for name, value in values.items())
