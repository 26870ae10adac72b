"""A figure: a chart that the page draws, and the files that say the same."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import vl_convert

from fanfold.report.charts import Chart
from fanfold.report.theme import chart_config, in_light

Spec = dict[str, Any]
FILE_WIDTH = 860
PNG_SCALE = 2


class Figure(NamedTuple):
    """One chart.

    name: of its files, and its place on the page. title, caption: text beside it. alt: what one
    sees, for those who do not. spec: Vega-Lite; its colours are variables of the page.
    is_half: stands beside another where there is room.
    """

    name: str
    title: str
    caption: str
    alt: str
    spec: Spec
    is_half: bool = False


def spec_of(chart: Chart, *, height: int) -> Spec:
    """Chart as wide as its place; without parameters no counter of the library is in it."""
    sized = chart.properties(width="container", height=height)
    told: Spec = sized.to_dict()
    told["config"] = chart_config()
    told["autosize"] = {"type": "fit-x", "contains": "padding"}
    return told


def svg_of(spec: Spec, schemes: tuple[str, ...]) -> str:
    """The figure as SVG in light colours on white, FILE_WIDTH wide."""
    text = in_light(json.dumps(spec, sort_keys=True), schemes)
    sized: Spec = json.loads(text) | {"width": FILE_WIDTH, "background": "#ffffff"}
    svg: str = vl_convert.vegalite_to_svg(sized)
    return svg


def write_files(svgs: dict[str, str], folder: Path) -> list[Path]:
    """SVG and PNG of every figure, by name; the files that were written."""
    written: list[Path] = []
    for name, svg in svgs.items():
        places = folder / f"{name}.svg", folder / f"{name}.png"
        places[0].write_text(svg, encoding="utf-8")
        places[1].write_bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
        written += places
    return written
