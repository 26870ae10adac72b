import numpy as np
import pytest

from fanfold.errors import ConfigError
from fanfold.topo.nets import build_named_net
from fanfold.topo.placement import KINDS, place_hosts


def sets_of(placed, hosts):
    return sorted(set(placed.set_of[hosts].tolist()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [64, 256, 4096])
def test_every_host_has_an_id_of_its_own_that_fits_its_sub_domain(kind, bits):
    net = build_named_net("leaf-spine:leaves=400,spines=1,hosts=66000")
    placed = place_hosts(net, kind, bits, [range(i, 66000, 7) for i in range(5)])
    ids = set(zip(placed.sub_domain.tolist(), placed.bfr_id.tolist(), strict=True))
    assert len(ids) == net.n_hosts
    assert placed.bfr_id.min() >= 1
    assert placed.bfr_id.max() <= min(65535, 256 * bits)


def test_naive_ids_follow_the_hosts_and_run_on_in_the_next_sub_domain():
    net = build_named_net("star:hosts=65537")
    placed = place_hosts(net, "naive", 256)
    assert placed.bfr_id[:65535].tolist() == list(range(1, 65536))
    assert placed.sub_domain[65534:].tolist() == [0, 1, 1]
    assert placed.bfr_id[65535:].tolist() == [1, 2]
    assert placed.set_of[65534:].tolist() == [255, 256, 256]
    assert placed.n_packets(np.arange(65535)) == 256


def test_no_rack_straddles_two_sets():
    net = build_named_net("leaf-spine:leaves=10,spines=1,hosts=500")
    naive, rack = (place_hosts(net, kind, 64) for kind in ("naive", "rack"))
    racks = [np.nonzero(net.rack == r)[0] for r in range(10)]
    assert {naive.n_packets(hosts) for hosts in racks} == {1, 2}
    assert {rack.n_packets(hosts) for hosts in racks} == {1}
    assert (naive.n_packets(range(500)), rack.n_packets(range(500))) == (8, 10)


def test_a_pod_that_fits_into_a_set_has_one_and_a_larger_one_no_more_than_it_needs():
    net = build_named_net("wan:sites=3,hosts=90,leaves=3")
    pods = [np.nonzero(net.pod == p)[0] for p in range(3)]
    in_128 = place_hosts(net, "rack", 128)
    assert [sets_of(in_128, pod) for pod in pods] == [[0], [1], [2]]
    in_64 = place_hosts(net, "rack", 64)
    assert [len(sets_of(in_64, pod)) for pod in pods] == [2, 2, 2]
    racks = [np.nonzero(net.rack == r)[0] for r in range(9)]
    assert {in_64.n_packets(hosts) for hosts in racks} == {1}


def test_the_set_that_lacks_a_bit_takes_no_rack_that_needs_it():
    net = build_named_net("leaf-spine:leaves=257,spines=1,hosts=65792")
    placed = place_hosts(net, "rack", 256)
    assert {placed.n_packets(np.nonzero(net.rack == r)[0]) for r in range(257)} == {1}
    assert placed.sub_domain[255 * 256] == 1
    assert placed.bfr_id[255 * 256] == 1


def test_members_of_a_job_follow_each_other_and_the_rest_comes_last():
    net = build_named_net("fat-tree:k=8")
    jobs = [list(range(j, 128, 4)) for j in (3, 1)]
    placed = place_hosts(net, "job", 64, [*jobs, jobs[0]])
    assert placed.bfr_id[jobs[0]].tolist() == list(range(1, 33))
    assert placed.bfr_id[jobs[1]].tolist() == list(range(33, 65))
    assert placed.bfr_id[0::2].tolist() == list(range(65, 129))
    assert place_hosts(net, "naive", 64).n_packets(jobs[0]) == 2
    assert placed.n_packets(jobs[0]) == 1


def test_a_job_that_would_straddle_starts_in_a_new_set():
    net = build_named_net("star:hosts=128")
    placed = place_hosts(net, "job", 64, [range(40), range(40, 80)])
    assert placed.n_packets(range(40, 80)) == 1
    assert placed.bfr_id[40] == 65


def test_wrong_jobs_and_lengths_are_refused():
    net = build_named_net("star:hosts=8")
    with pytest.raises(ConfigError, match=r"jobs\[1\]: got 8, allowed: hosts 0..7"):
        place_hosts(net, "job", 64, [[0], [8]])
    with pytest.raises(ConfigError, match="bsl: got 65"):
        place_hosts(net, "naive", 65)
