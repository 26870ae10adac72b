"""Laws of the tables of any fabric, RFC 8279 sections 6.4, 6.5 and 6.7.2."""

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fanfold.kernels.tables import NULL_NBR, SELF_NBR
from fanfold.topo.bift import build_bifts, table_of
from fanfold.topo.fabric import Fabric, Link, Node
from fanfold.topo.fabric_routes import FabricRoutes
from fanfold.topo.fabric_rules import check_fabric
from fanfold.topo.predict import predict_links

LAW = settings(max_examples=60)


@st.composite
def fabrics(draw):
    """A connected fabric: a random tree of BFRs, more links, hosts on one or two BFRs."""
    n_bfrs = draw(st.integers(1, 6))
    n_hosts = draw(st.integers(1, 6))
    bfrs = [f"b{i}" for i in range(n_bfrs)]
    hosts = [f"h{i}" for i in range(n_hosts)]
    pairs = {(bfrs[draw(st.integers(0, i - 1))], bfrs[i]) for i in range(1, n_bfrs)}
    for near, far in draw(st.lists(st.tuples(*[st.integers(0, n_bfrs - 1)] * 2), max_size=8)):
        pairs |= {(bfrs[min(near, far)], bfrs[max(near, far)])} if near != far else set()
    for host in hosts:
        homes = draw(st.lists(st.sampled_from(bfrs), min_size=1, max_size=2, unique=True))
        pairs |= {(home, host) for home in homes}
    n_bfers = draw(st.integers(0, n_bfrs))  # the first BFRs are BFERs as well
    ids = draw(
        st.lists(
            st.integers(1, 300),
            min_size=n_hosts + n_bfers,
            max_size=n_hosts + n_bfers,
            unique=True,
        )
    )
    bfr_ids = dict(zip(hosts + bfrs, ids, strict=False))
    nodes = (
        Node(n, f"127.0.0.{i + 1}", "bfr" if n in bfrs else "host", bfr_ids.get(n, 0))
        for i, n in enumerate(bfrs + hosts)
    )
    return Fabric(
        "f",
        tuple(nodes),
        tuple(Link(*pair) for pair in draw(st.permutations(sorted(pairs)))),
        bitstring_bits=draw(st.sampled_from((64, 128, 512))),
        n_ecmp=draw(st.integers(1, 6)),
    )


def ports_to(fabric, bifts, far):
    """Port toward a BFER in each table."""
    si, bit = divmod(far.bfr_id - 1, fabric.bitstring_bits)
    first = bifts.first[bifts.ids.tolist().index(bifts.ids[0] & ~0xFF | si)]
    return bifts.nbr_of[first : first + fabric.n_ecmp, bit].tolist()


def onward(fabric, via, target):
    """Hops of a packet that ``via`` passes on; None from a host."""
    if via != target and fabric.by_name[via].role == "host":
        return None
    return naive.hops(fabric, via, target)


def ints(f_bm):
    """F-BM by BFR-NBR as Python ints."""
    return {row - 1: int.from_bytes(f_bm[row].tobytes(), "little") for row in range(len(f_bm))}


@LAW
@given(fabrics())
def test_drawn_fabrics_keep_the_rules(fabric):
    check_fabric(fabric, "drawn")


@LAW
@given(fabrics())
def test_f_bms_of_a_table_partition_the_bits(fabric):
    routes, n_bits = FabricRoutes(fabric), fabric.bitstring_bits
    for node in fabric.nodes:
        bifts = build_bifts(routes, node.name)
        for nbr_of, f_bm in zip(bifts.nbr_of, bifts.f_bm, strict=True):
            by_nbr = ints(f_bm)
            assert sum(mask.bit_count() for mask in by_nbr.values()) == n_bits
            assert by_nbr == {
                nbr: sum(1 << k for k in range(n_bits) if nbr_of[k] == nbr) for nbr in by_nbr
            }


@LAW
@given(fabrics())
def test_each_row_is_a_shortest_path_and_the_rest_is_null(fabric):
    routes = FabricRoutes(fabric)
    for node in fabric.nodes:
        bifts, ends = build_bifts(routes, node.name), fabric.port_nodes(node.name)
        used = 0
        for far in fabric.by_bfr_id.values():
            left = naive.hops(fabric, node.name, far.name)
            for nbr in ports_to(fabric, bifts, far):
                assert (far == node) == (nbr == SELF_NBR)
                assert nbr == SELF_NBR or onward(fabric, ends[nbr].name, far.name) == left - 1
                used += 1
        assert np.count_nonzero(bifts.nbr_of != NULL_NBR) == used


@LAW
@given(fabrics())
def test_each_path_gets_its_share_of_the_tables(fabric):
    routes = FabricRoutes(fabric)
    for node in fabric.nodes:
        bifts, ends = build_bifts(routes, node.name), fabric.port_nodes(node.name)
        for far in set(fabric.by_bfr_id.values()) - {node}:
            left = naive.hops(fabric, node.name, far.name)
            ways = [
                port
                for port, end in enumerate(ends)
                if port and onward(fabric, end.name, far.name) == left - 1
            ]
            picks = ports_to(fabric, bifts, far)
            counts = [picks.count(port) for port in ways]
            assert sum(counts) == fabric.n_ecmp
            assert max(counts) - min(counts) <= 1


@LAW
@given(fabrics())
def test_behind_a_port_is_who_a_shortest_path_leads_to_by_it(fabric):
    routes = FabricRoutes(fabric)
    for node in fabric.nodes:
        bifts, ends = build_bifts(routes, node.name), fabric.port_nodes(node.name)
        for far in fabric.by_bfr_id.values():
            si, bit = divmod(far.bfr_id - 1, fabric.bitstring_bits)
            row = bifts.behind[bifts.ids.tolist().index(bifts.ids[0] & ~0xFF | si)]
            ports = {p for p in range(len(ends)) if int(row[p, bit // 64]) >> bit % 64 & 1}
            names = {ends[port].name for port in ports}
            left = naive.hops(fabric, node.name, far.name)
            due = {
                n
                for n in fabric.neighbours[node.name]
                if onward(fabric, n, far.name) == (left or 0) - 1
            }
            assert names == ({node.name} if far == node else due)


@LAW
@given(fabrics(), st.data())
def test_masks_replicate_as_sets_do(fabric, data):
    name = data.draw(st.sampled_from([n.name for n in fabric.nodes]))
    bifts = build_bifts(FabricRoutes(fabric), name)
    table = data.draw(st.integers(0, len(bifts.nbr_of) - 1))
    nbr_of = bifts.nbr_of[table].tolist()
    bits = data.draw(st.integers(0, (1 << fabric.bitstring_bits) - 1))
    receivers = {k for k in range(fabric.bitstring_bits) if bits >> k & 1}
    copies = naive.replicate_by_masks(bits, nbr_of, ints(bifts.f_bm[table]))
    assert len({nbr for nbr, _ in copies}) == len(copies)
    sets = naive.replicate(receivers, dict(enumerate(nbr_of)))
    assert {nbr: share for nbr, share in copies if nbr != NULL_NBR} == {
        nbr: sum(1 << k for k in share) for nbr, share in sets.items()
    }


@LAW
@given(fabrics(), st.integers(0, 2**20 - 1), st.data())
def test_every_receiver_gets_each_packet_once_over_a_shortest_path(fabric, entropy, data):
    """Walk the masks from any source; the prediction counts the same copies."""
    source = data.draw(st.sampled_from([n.name for n in fabric.nodes]))
    bfers = [n.name for n in fabric.by_bfr_id.values()]
    wanted = data.draw(st.frozensets(st.sampled_from(bfers)))
    routes = FabricRoutes(fabric)
    tables = {n.name: build_bifts(routes, n.name) for n in fabric.nodes}
    heard, links = [], {}
    todo = [(source, si, bits, 0) for si, bits in bitstrings(fabric, wanted).items()]
    for name, si, bits, n_hops in todo:
        bifts, ends = tables[name], fabric.port_nodes(name)
        t = bifts.ids.tolist().index(bifts.ids[0] & ~0xFF | si)
        table = bifts.first[t] + table_of(entropy, fabric.n_ecmp)
        nbr_of, f_bm = bifts.nbr_of[table].tolist(), ints(bifts.f_bm[table])
        for nbr, share in naive.replicate_by_masks(bits, nbr_of, f_bm):
            assert nbr != NULL_NBR
            if nbr == SELF_NBR:
                heard.append((name, n_hops))
            else:
                todo.append((ends[nbr].name, si, share, n_hops + 1))
                links[name, ends[nbr].name] = links.get((name, ends[nbr].name), 0) + 1
    assert sorted(heard) == sorted((name, routes.hops(source, name)) for name in wanted)
    predicted = predict_links(fabric, source, [(wanted, 2, 100, entropy)])
    assert predicted == {link: (2 * n, 100 * n) for link, n in links.items()}


@LAW
@given(fabrics(), st.data())
def test_predictions_add_up(fabric, data):
    """What a host takes in is what it was sent; the order of the requests changes nothing."""
    bfers = [n.name for n in fabric.by_bfr_id.values()]
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    source = data.draw(st.sampled_from(bfers))
    one = st.tuples(
        st.frozensets(st.sampled_from(bfers)),
        st.integers(1, 9),
        st.integers(1, 9999),
        st.integers(0, 7),
    )
    sent = data.draw(st.lists(one, max_size=6))
    links = predict_links(fabric, source, sent)
    for host in hosts:
        taken = [counts for (_, far), counts in links.items() if far == host]
        due = [(p, b) for to, p, b, _ in sent if host in to and host != source]
        assert [sum(c) for c in zip(*taken, strict=True)] == [
            sum(c) for c in zip(*due, strict=True)
        ]
    assert predict_links(fabric, source, sent[::-1]) == links


def bitstrings(fabric, names):
    """BitString by SI, RFC 8279 section 3."""
    sets = {}
    for name in names:
        si, bit_index = divmod(fabric.by_name[name].bfr_id - 1, fabric.bitstring_bits)
        sets[si] = sets.get(si, 0) | 1 << bit_index
    return sets
