"""Which host has which BFR-id: it decides how many packets a message to many takes.

One packet reaches the BFERs of one set of one sub-domain (RFC 8279 section 3), so a message
takes as many packets as its receivers touch sets. A sub-domain holds 65,535 BFR-ids in at most
256 sets; more hosts go into the next sub-domain. Sets are counted on through all sub-domains.
Letters: H = hosts.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fanfold.errors import ConfigError
from fanfold.ids import MAX_BFR_ID
from fanfold.topo.net import Net
from fanfold.wire.bitstring import MAX_SI, MAX_SUB_DOMAIN, bsl_of_bits

I64 = NDArray[np.int64]
Kind = Literal["naive", "rack", "job"]
"""naive: in the order of the hosts. rack: the hosts of a pod, and those of a rack, follow each
other; job: the members of a job do. A pod, rack or job starts in a new set where it so touches
fewer sets; so none that fits into a set straddles two."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Placement(NamedTuple):
    """BFR-ids of all hosts: sub_domain and bfr_id (H,)."""

    bitstring_bits: int
    sub_domain: I64
    bfr_id: I64

    @property
    def set_of(self) -> I64:
        """(H,) set of each host; the SI is that modulo the sets of a sub-domain."""
        si = (self.bfr_id - 1) // self.bitstring_bits
        return self.sub_domain * _sets_of_sub_domain(self.bitstring_bits) + si

    def n_packets(self, receivers: ArrayLike) -> int:
        """Packets of one message of one packet of payload to these hosts."""
        return int(np.unique(self.set_of[np.asarray(receivers, np.int64)]).size)


def place_hosts(
    net: Net, kind: Kind, bitstring_bits: int, jobs: Sequence[Sequence[int]] = ()
) -> Placement:
    """BFR-ids of all hosts of a net.

    Args:
        bitstring_bits: of a set, 64 to 4096.
        jobs: for ``job``, the hosts of each; a host of two jobs is counted to the first, and
            hosts of none come last.

    Raises:
        ConfigError: a wrong length, an unknown host of a job, more hosts than BFR-ids.
    """
    bsl_of_bits(bitstring_bits)
    at = _Cursor(bitstring_bits)
    place = np.full(net.n_hosts, -1, np.int64)
    match kind:
        case "naive":
            place[:] = at.take(net.n_hosts)
        case "rack":
            for pod in _classes(net.pod, np.arange(net.n_hosts)):
                at.align(pod.size)
                for hosts in _classes(net.rack, pod):
                    at.align(hosts.size)
                    place[hosts] = at.take(hosts.size)
        case "job":
            for hosts in _members(net.n_hosts, jobs):
                at.align(hosts.size)
                place[hosts] = at.take(hosts.size)
            rest = np.nonzero(place < 0)[0]
            place[rest] = at.take(rest.size)
    n_sets = _sets_of_sub_domain(bitstring_bits)
    sub_domain, id_before = np.divmod(place, n_sets * bitstring_bits)
    if sub_domain.max(initial=0) > MAX_SUB_DOMAIN:
        most = (MAX_SUB_DOMAIN + 1) * min(MAX_BFR_ID, n_sets * bitstring_bits)
        raise ConfigError("hosts", net.n_hosts, f"at most {most} in all sub-domains")
    return Placement(bitstring_bits, sub_domain, id_before + 1)


class _Cursor:
    """The next free place; places count bits through all sets of all sub-domains.

    The last place of a sub-domain that would be BFR-id 65,536 is never given.
    """

    def __init__(self, n_bits: int) -> None:
        self._bits = n_bits
        self._per_sub_domain = _sets_of_sub_domain(n_bits) * n_bits
        self._next = 0

    def align(self, n: int) -> None:
        """Go on to a new set where n hosts would so touch fewer of them."""
        start = self._next
        for _ in range(2):  # twice, as the set with one place less may be the next one
            start += -start % self._bits
            if n and self._touched(start, n) < self._touched(self._next, n):
                self._next = start
            start += 1

    def take(self, n: int) -> I64:
        """Places for n hosts."""
        places = self._places(self._next, n)
        if n:
            self._next = int(places[-1]) + 1
        return places

    def _touched(self, start: int, n: int) -> int:
        places = self._places(start, n)
        return int(places[-1] // self._bits - places[0] // self._bits) + 1

    def _places(self, start: int, n: int) -> I64:
        end = start + n + n // self._per_sub_domain + 2
        places = np.arange(start, end, dtype=np.int64)
        given: I64 = places[places % self._per_sub_domain != MAX_BFR_ID]
        return given[:n]


def _sets_of_sub_domain(n_bits: int) -> int:
    """Sets that SIs and BFR-ids allow; the last one may lack a bit."""
    return min(MAX_SI + 1, (MAX_BFR_ID + n_bits) // n_bits)


def _classes(label: I64, hosts: I64) -> Iterable[I64]:
    """Hosts of equal label, in the order in which labels first appear."""
    found: dict[int, list[int]] = {}
    for host, key in zip(hosts.tolist(), label[hosts].tolist(), strict=True):
        found.setdefault(key, []).append(host)
    return (np.array(members, np.int64) for members in found.values())


def _members(n_hosts: int, jobs: Sequence[Sequence[int]]) -> Iterable[I64]:
    """Hosts of each job without those of an earlier one."""
    seen: set[int] = set()
    for number, job in enumerate(jobs):
        for host in job:
            if not 0 <= host < n_hosts:
                raise ConfigError(f"jobs[{number}]", host, f"hosts 0..{n_hosts - 1}")
        new = [host for host in dict.fromkeys(job) if host not in seen]
        seen.update(new)
        yield np.array(new, np.int64)
