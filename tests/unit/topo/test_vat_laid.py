"""Trees of a file on a live fabric: what each node is told, and what cannot be."""

import msgspec
import pytest
from vat_nodes import figure_one

from fanfold.errors import ConfigError
from fanfold.topo.vat_file import JobText, NodeText, VatFile
from fanfold.topo.vat_laid import LaidRow, lay_trees

WORKERS = ["w1", "w2", "w3", "w4"]
NODES = [
    NodeText("s6", WORKERS),
    NodeText("s1", ["w1", "w2"], "s6"),
    NodeText("s7", ["w3", "w4"], "s6"),
]
JOB = JobText("figure 1", WORKERS, NODES, quota=64)


def lay(**changed):
    job = msgspec.structs.replace(JOB, **changed)
    return lay_trees(figure_one(), VatFile([job]))


def test_nodes_have_their_a_bms_and_switches_between_them_the_way() -> None:
    (tree,) = lay()
    assert tree.members == ("w1", "w2", "w3", "w4")
    assert set(tree.rows) == {
        LaidRow("s1", "s5", (1, 2), 64),
        LaidRow("s2", "s5", (), 0),
        LaidRow("s5", "s7", (), 0),
        LaidRow("s6", "", (1, 2, 3, 4), 64),
        LaidRow("s7", "s6", (3, 4), 64),
    }
    assert tree.ups == {"w1": "s1", "w2": "s1", "w3": "s2", "w4": "s2"}
    assert set(tree.n_down.values()) == {4}  # s6, s7, s5, a leaf


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"workers": ["w1", "h9"]}, r"jobs\[0\].workers: got 'h9', allowed: a name of"),
        ({"quota": 14}, r"jobs\[0\].quota: got 14, allowed: an even number, 16..512: slots"),
        ({"quota": 33}, r"jobs\[0\].quota: got 33, allowed: an even number"),
        ({"quota": 514}, r"jobs\[0\].quota: got 514, allowed: an even number"),
        ({"quota": 256}, r"job figure 1: got 'too-few-slots: "),
        ({"nodes": NODES[1:]}, r"job figure 1: got '"),
    ],
)
def test_what_no_fabric_can_have_is_refused(changed: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        lay(**changed)


def test_a_node_that_would_need_two_ways_is_refused() -> None:
    # s5 lies between s1 and s6, and between w3 and s1, which takes all
    nodes = [NodeText("s6", WORKERS), NodeText("s1", WORKERS, "s6")]
    with pytest.raises(ConfigError, match="ways from s5 by s7 and by s1"):
        lay(nodes=nodes)
