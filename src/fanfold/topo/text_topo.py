"""Nets from ``.txt`` files, which several programs write: told apart by what stands in them."""

import re
from pathlib import Path

from fanfold.topo.ib_topo import load_ib_topo
from fanfold.topo.net import Net
from fanfold.topo.ns3_topo import load_ns3_topo
from fanfold.topo.sketch import Line
from fanfold.topo.text_lines import text_of

_IB = re.compile(r"^(?:vendid=|(?:switch|ca|rt)guid=|Switch\s|Ca\s|Rt\s)", re.MULTILINE)


def load_text_topo(path: Path, line: Line) -> Net:
    """Net of what ibnetdiscover prints, or else of ns-3's topology text.

    Raises:
        ConfigError: as ``load_ib_topo`` and ``load_ns3_topo``.
    """
    load = load_ib_topo if _IB.search(text_of(path)) else load_ns3_topo
    return load(path, line)
