"""A cable that carries only words of receivers is cut: they find another way home."""

import numpy as np
import pytest
from outcomes import outcome_of

from fanfold.kernels.jit import JIT
from fanfold.results.outcome import FEEDBACK, NOT_DONE, Outcome
from fanfold.schemes.program import Fan, with_entropy
from fanfold.topo.net import Net
from fanfold.topo.nets import build_named_net

TOPOLOGY = "leaf-spine:leaves=3,spines=3,hosts=6"
CUT_PS = 10_000_000
N_BYTES = 512 * 4096


def play(name: str, failures=(), **settings) -> Outcome:
    told = {"failures": list(failures), "tree_start": "standing", **settings}
    return outcome_of(TOPOLOGY, name, "broadcast", N_BYTES, **told)


def home_only(net: Net, out: Outcome) -> tuple[str, str]:
    """A cable between routers by which words go home, and no data in either direction."""
    words = out.link_pkts[:, FEEDBACK] > 0
    data = out.link_pkts[:, :FEEDBACK].any(axis=1)
    inner = (net.src >= net.n_hosts) & (net.dst >= net.n_hosts)
    (found,) = np.nonzero(words & ~data & ~data[net.reverse] & inner)
    assert found.size
    k = int(found[0])
    return net.node_name(int(net.src[k])), net.node_name(int(net.dst[k]))


@pytest.mark.skipif(not JIT, reason="many packets: for compiled code")
@pytest.mark.parametrize("name", ["mldp", "pim-sm", "sr-p2mp", "bidir-pim", "bier"])
def test_nobody_is_given_up_and_nothing_waits_for_routing(name):
    whole = play(name)
    a, b = home_only(build_named_net(TOPOLOGY), whole)
    out = play(name, [{"at_ps": CUT_PS, "a": a, "b": b}])
    assert not out.stuck
    assert (out.host_ps != NOT_DONE).all()
    # Routing notices after 350 ms; a word that was lost is asked for a few round trips later.
    assert out.end_ps < 3 * whole.end_ps


@pytest.mark.skipif(not JIT, reason="many packets: for compiled code")
@pytest.mark.parametrize("name", ["mldp", "pim-sm", "sr-p2mp"])
def test_a_tree_that_is_mended_goes_on_at_its_rate(name):
    """What those behind the break lacked meanwhile is no sign of a slow link."""
    net, whole = build_named_net(TOPOLOGY), play(name)
    inner = (net.src >= net.n_hosts) & (net.dst >= net.n_hosts)
    k = int(np.nonzero((whole.link_pkts[:, 0] > 0) & inner)[0][-1])
    a, b = net.node_name(int(net.src[k])), net.node_name(int(net.dst[k]))
    out = play(name, [{"at_ps": CUT_PS, "a": a, "b": b}])
    assert not out.stuck
    mended_ps = 352 * 10**9 if name != "sr-p2mp" else 155 * 10**9
    assert out.end_ps < mended_ps + mended_ps // 4


def test_a_fan_takes_a_way_by_the_seed():
    fans = tuple(Fan(source, (9,), 1) for source in range(8))
    tables = [[f.entropy % 4 for f in with_entropy(fans, seed)] for seed in range(6)]
    assert len({tuple(row) for row in tables}) == 6
    assert with_entropy(fans, 3) == with_entropy(fans, 3)
    assert with_entropy(fans[::-1], 3)[::-1] == with_entropy(fans, 3)
    of_one = with_entropy(tuple(Fan(0, (k,), 1) for k in range(1, 5)), 5)
    assert {f.entropy % 4 for f in of_one} == {0, 1, 2, 3}


def test_two_seeds_differ_in_the_spines_that_a_fan_takes():
    seen = set()
    for seed in range(1, 7):
        out = outcome_of(TOPOLOGY, "fanfold", "broadcast", 4096, seed)
        seen.add(tuple(out.link_pkts[:, 0].tolist()))
    assert len(seen) > 1
