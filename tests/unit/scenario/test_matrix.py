"""Traffic matrix files: messages, triggers, and the line of a fault."""

from pathlib import Path

import pytest

from fanfold.errors import ConfigError
from fanfold.scenario.matrix import load_matrix
from fanfold.scenario.settings import Settings
from fanfold.schemes.program import ACKED, RECEIVED
from fanfold.sim.simulate import simulate
from fanfold.topo.nets import build_named_net
from fanfold.topo.routes import build_routes

CHAIN = """Nodes 4
Connections 3
0->1 id 1 start 0 size 4096 send_done_trigger 1
1->2 id 2 trigger 1 size 8192 send_done_trigger 2   # a word
3->0 id 3 start 5 size 1

2->3 id 4 trigger 2 size 100
trigger id 1 oneshot
trigger id 2 oneshot
"""


TWICE = """0->1 size 1 send_done_trigger 3
0->1 size 1 send_done_trigger 3
0->2 size 1 trigger 3
trigger id 3 oneshot
"""
BOTH = """0->1 size 1 send_done_trigger 3
0->1 size 1 recv_done_trigger 4
"""


def load(text: str, tmp_path: Path, n_hosts: int = 4) -> object:
    (tmp_path / "m.cm").write_text(text)
    return load_matrix(tmp_path / "m.cm", n_hosts)


def test_messages_and_what_they_wait_for(tmp_path: Path) -> None:
    (tmp_path / "m.cm").write_text(CHAIN)
    program = load_matrix(tmp_path / "m.cm", 4)
    assert program.src.tolist() == [0, 1, 3, 2]
    assert program.dst.tolist() == [1, 2, 0, 3]
    assert program.n_bytes.tolist() == [4096, 8192, 1, 100]
    assert program.start_ps.tolist() == [0, 0, 5, 0]
    assert program.n_needs.tolist() == [0, 1, 0, 1]
    assert program.first_dep.tolist() == [0, 1, 2, 2, 2]
    assert program.dep.tolist() == [1, 3]
    assert program.on == ACKED
    assert not program.fans


def test_a_barrier_waits_for_all(tmp_path: Path) -> None:
    lines = [f"{i}->{i + 1} size 1 recv_done_trigger 9" for i in range(3)]
    (tmp_path / "m.cm").write_text(
        "\n".join([*lines, "3->0 size 1 trigger 9", "trigger id 9 barrier count 3"])
    )
    program = load_matrix(tmp_path / "m.cm", 4)
    assert program.n_needs.tolist() == [0, 0, 0, 3]
    assert program.on == RECEIVED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "m.cm: got 'no message'"),
        ("0->0 size 1", "m.cm:1: got '0->0', allowed: two different hosts, 0..3"),
        ("0->1 size 1\n0->4 size 1", "m.cm:2: got '0->4'"),
        ("0->1 size 0", "m.cm:1 size: got 0, allowed: 1.."),
        ("0->1 id 1", "m.cm:1: got '0->1 id 1', allowed: S->D"),
        ("0->1 size", "m.cm:1: got 'size'"),
        ("0->1 size -5", "m.cm:1: got 'size -5'"),
        ("0->1 size 1 weight 3", "m.cm:1: got 'size 1 weight 3'"),
        ("0=>1 size 1", "m.cm:1: got '0=>1 size 1'"),
        ("Nodes 5\n0->1 size 1", "m.cm:1: got 'Nodes 5', allowed: Nodes 0..4"),
        ("0->1 size 1 trigger 3", "m.cm: got '0->1 waits for trigger 3'"),
        (TWICE, "m.cm: got 'trigger 3 fired by 2 messages', allowed: 1"),
        (BOTH, "m.cm: got 'both'"),
    ],
)
def test_a_fault_is_named_by_its_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{said}")


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a matrix file that can be read"):
        load_matrix(tmp_path / "none.cm", 4)


@pytest.mark.parametrize("ids", [("id 1", "id 2"), ("", "")], ids=["ids", "no ids"])
def test_alike_lines_swapped_change_nothing(ids: tuple[str, str], tmp_path: Path) -> None:
    """What others wait for leaves first, or last, by its id and triggers: not by its line."""
    some = [
        f"0->1 {ids[0]} size 1048576 recv_done_trigger 5",
        f"0->1 {ids[1]} size 1048576",
        "1->2 size 1048576 trigger 5",
        "trigger id 5 oneshot",
    ]
    net = build_named_net("star:hosts=4")
    ends = []
    for lines in (some, [some[1], some[0], *some[2:]], some[::-1]):
        path = tmp_path / "some.cm"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        program = load_matrix(path, 4)
        outcome = simulate(net, build_routes(net), program, Settings(), seed=1)
        ends.append((outcome.end_ps, outcome.host_ps.tolist()))
    assert ends[0] == ends[1] == ends[2]
