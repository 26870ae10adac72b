"""Trees that a manager installs in switches for sums: by hand on small nets."""

import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.schemes import sharp
from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import NO_TREE
from fanfold.schemes.sharp import grow, install
from fanfold.schemes.tree_fans import Site
from fanfold.topo.nets import build_named_net
from fanfold.trees.settings import TreeSettings
from fanfold.work.collective import Collective

FAT = build_named_net("fat-tree:k=4")  # two hosts a leaf, two leaves a pod, 4 pods


def names(net, nodes):
    return [net.node_name(int(node)) for node in nodes]


def sums_of(hosts):
    return sharp.plan(Collective("all_reduce", 100, hosts), SchemeOptions()).program


def test_one_leaf_is_a_tree_of_one_switch():
    switches = grow(FAT, np.array([0, 1]))
    assert names(FAT, [switches.root]) == ["edge0"]
    assert names(FAT, FAT.dst[switches.links]) == ["h0", "h1"]
    assert switches.n_links.tolist() == [2]  # no parent
    assert switches.away.tolist() == [1]


def test_the_root_is_half_way_to_the_farthest_member():
    pod = grow(FAT, np.array([0, 3]))
    assert names(FAT, pod.nodes) == ["edge0", "edge1", "agg0"]
    assert pod.n_links.tolist() == [2, 2, 2]
    assert pod.away.tolist() == [1, 3, 2]
    far = grow(FAT, np.array([0, 3, 15]))
    # h0-edge0-agg0-core0-agg6-edge7-h15: five switches between, the third is the root
    assert names(FAT, [far.root]) == ["core0"]
    assert names(FAT, far.nodes) == [
        *("edge0", "edge1", "edge7", "agg0", "agg6", "core0"),
    ]


def test_what_the_manager_sends_and_switches_keep():
    program = sums_of((0, 3))
    laid = install(program, FAT, waits=True)
    # three switches 1, 3 and 2 links away, there and back
    assert (laid.setup.n_messages, laid.setup.n_bytes) == (12, 12 * 256)
    assert (laid.setup.n_entries, laid.setup.most_entries) == (6, 2)
    # 256 B last 20,480 ps at 100 Gb/s: 6 links of that and 1 us each, two more leave before
    assert laid.setup.ps == 6 * (20_480 + 1_000_000) + 2 * 20_480
    assert [one.start_ps for one in laid.sums] == [laid.setup.ps]
    assert [one.start_ps for one in install(program, FAT, waits=False).sums] == [0]
    assert (program.sums[0].tree, laid.sums[0].tree) == (NO_TREE, 0)
    assert laid.trees[0].source == grow(FAT, np.array([0, 3])).root


def test_sums_of_one_group_share_a_tree_and_groups_do_not():
    one = sums_of((0, 3)).sums[0]
    program = sums_of((0, 3))._replace(sums=(one, one._replace(hosts=(1, 2)), one))
    laid = install(program, FAT, waits=True)
    assert [x.tree for x in laid.sums] == [0, 1, 0]
    assert (laid.setup.n_entries, laid.setup.most_entries) == (12, 4)


def test_a_scheme_that_installs_trees_needs_a_net():
    work = Collective("all_reduce", 100, (0, 3))
    with pytest.raises(ConfigError, match="a net that sharp installs its trees on"):
        scheme_of("sharp").build(work)
    site = Site(FAT, TreeSettings(), "standing")
    assert scheme_of("sharp").build(work, site=site).sums[0].start_ps == 0


def test_members_reach_each_other_by_another_port():
    net = build_named_net("superpod:gpus=64")
    switches = grow(net, np.array([0, 63]))
    assert set(net.dst[switches.links].tolist()) >= {0, 63}
