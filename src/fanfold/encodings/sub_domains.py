"""Flat BIER, sub-domains by place: each pod numbers its own hosts, dense from 1.

RFC 8279 section 2 lets a sub-domain have BFR-ids of its own; a packet names receivers of one
sub-domain. No pod (no rack, where there is one pod) straddles two of them; beyond 256 pods,
neighbours share one.
"""

import numpy as np

from fanfold.encodings.domains import places_of
from fanfold.encodings.encoder import Refusal
from fanfold.encodings.flat_bier import FlatBier
from fanfold.encodings.ground import Ground
from fanfold.ids import MAX_BFR_ID
from fanfold.topo.placement import Placement
from fanfold.wire.bitstring import MAX_SI, MAX_SUB_DOMAIN


class SubDomains(FlatBier):
    """One sub-domain for each pod."""

    def __init__(self, ground: Ground, limit_bits: int, n_bits: int) -> None:
        domain = places_of(ground.net)
        n_domains = int(domain.max()) + 1
        per = -(-n_domains // (MAX_SUB_DOMAIN + 1))
        sub_domain = domain // per
        order = np.argsort(sub_domain, kind="stable")
        first = np.searchsorted(sub_domain[order], np.arange(int(sub_domain.max()) + 1))
        bfr_id = np.empty_like(sub_domain)
        bfr_id[order] = np.arange(order.size) - first[sub_domain[order]] + 1
        if int(bfr_id.max()) > min(MAX_BFR_ID, (MAX_SI + 1) * n_bits):
            raise Refusal(f"{int(bfr_id.max())} hosts in one sub-domain of {n_bits}-bit sets")
        super().__init__(ground, limit_bits, Placement(n_bits, sub_domain, bfr_id))
