"""Defaults of a comparison are said: the rate of links in the name, the rest in a line."""

import pytest

from fanfold.api.ran_with import ran_with, with_default_rate
from fanfold.api.scenarios import scenario_of
from fanfold.scenario.scenario import read_scenario
from fanfold.topo.net_catalog import NET_CATALOG
from fanfold.topo.nets import build_named_net


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("star:hosts=2", "star:hosts=2,rate=400Gbps"),
        (" fat-tree:k=4,delay=2us", " fat-tree:k=4,delay=2us,rate=400Gbps"),
        ("superpod", "superpod"),
        ("rail:servers=2,spines=2", "rail:servers=2,spines=2"),
        ("star:hosts=2,rate=1Gbps", "star:hosts=2,rate=1Gbps"),
        (
            "leaf-spine:leaves=2,spines=2,hosts=4,spine-rate=10Gbps",
            "leaf-spine:leaves=2,spines=2,hosts=4,spine-rate=10Gbps,rate=400Gbps",
        ),
        ("import:lab.toml", "import:lab.toml"),
        ("stra:hosts=2", "stra:hosts=2"),
    ],
)
def test_a_topology_of_a_flag_has_400_gigabit_where_it_gives_no_rate(given, run):
    assert with_default_rate(given) == run.strip()


@pytest.mark.parametrize("row", NET_CATALOG, ids=lambda row: row.name)
def test_every_net_has_such_links_then(row):
    net = build_named_net(with_default_rate(f"{row.name}:{row.example}"))
    assert 400 * 10**9 in net.bps.tolist()


def test_flags_and_files_differ_in_that_alone():
    flags = {"--topology": "star:hosts=2", "--workload": "broadcast:1MiB"}
    assert scenario_of(None, flags).topology == "star:hosts=2,rate=400Gbps"
    workload = {"kind": "broadcast", "n_bytes": 2**20}
    table = {"topology": "star:hosts=2", "workload": workload}
    assert read_scenario(table).topology == "star:hosts=2"


def test_the_line_has_every_number_that_decides():
    workload = {"kind": "broadcast", "n_bytes": 2**20}
    settings = {
        "queue_bytes": 65536,
        "ecn_bytes": 32768,
        "pfc_pkts": [10, 5],
        "window_pkts": 12,
        "loss_ppb": 1500,
        "switch_ps": 500_000,
    }
    table = {"topology": "star:hosts=2", "workload": workload}
    assert ran_with(read_scenario(table)) == (
        "ran with: star:hosts=2; packets of 4096 + 64 bytes; transport plain, no window, paths "
        "by spray; queues: no limit, no marks, no pauses, 0 in a switch; loss 0 ppm; feedback "
        "auto, trees: wait; fidelity auto, seed 1"
    )
    said = ran_with(read_scenario(table | {"settings": settings, "seed": 7}))
    for part in (
        "window of 12 packets",
        "queues: 64 KiB, marks above 32 KiB, pauses at 10 and 5 packets, 500 ns in a switch",
        "loss 1.5 ppm",
        "seed 7",
    ):
        assert part in said
