"""Max-min rates are those of progressive filling with fractions, on any links and weights."""

import numpy as np
import pytest
from fluid_cases import max_min
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold.kernels.jit import JIT
from fanfold.sim.loop.maxmin import (
    ENTRY_ROW,
    FLOW_ROW,
    H_FIELDS,
    LINK_ROW,
    N_LISTS,
    NONE,
)
from fanfold.sim.loop.pipeline import fill_all

N_LINKS = 6
FLOW = st.dictionaries(st.integers(0, N_LINKS - 1), st.integers(1, 4), min_size=1, max_size=4)


def rates(caps, flows, limits=None):
    n = sum(map(len, flows))
    links = np.zeros(len(caps), LINK_ROW)
    links["cap"], links["head"] = caps, NONE
    rows = np.zeros(len(flows), FLOW_ROW)
    ends = np.cumsum([len(f) for f in flows])
    rows["first"], rows["end"] = ends - [len(f) for f in flows], ends
    rows["limit"] = np.inf if limits is None else limits
    entries = np.zeros(n, ENTRY_ROW)
    entries["link"] = [at for f in flows for at, _ in f]
    entries["weight"] = [w for f in flows for _, w in f]
    entries["flow"] = np.repeat(np.arange(len(flows)), [len(f) for f in flows])
    lists = np.zeros((N_LISTS, max(len(caps), len(flows))), np.int64)
    h = np.zeros(H_FIELDS, np.int64)
    fill_all(h, lists, links, rows, entries, 1, limits is not None)
    return rows["rate"].tolist()


@settings(max_examples=400 if JIT else 60)
@given(
    caps=st.lists(st.integers(1, 40), min_size=N_LINKS, max_size=N_LINKS),
    flows=st.lists(FLOW.map(lambda f: sorted(f.items())), min_size=1, max_size=8),
)
def test_rates_are_those_of_progressive_filling(caps, flows):
    want = [float(r) for r in max_min(caps, flows)]
    assert rates(caps, flows) == pytest.approx(want, rel=1e-8)


def test_a_flow_below_its_share_leaves_the_rest_to_others():
    flows = [[(0, 1)], [(0, 1)], [(0, 1), (1, 1)]]
    assert rates([12, 12], flows, limits=[2, 100, 100]) == pytest.approx([2, 5, 5])
    assert rates([12, 3], flows, limits=[2, 100, 100]) == pytest.approx([2, 7, 3])
