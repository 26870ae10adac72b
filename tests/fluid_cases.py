"""Programs by hand, and a slow twin of the max-min solver."""

from fractions import Fraction

import numpy as np

from fanfold.schemes.catalog import scheme_of
from fanfold.schemes.options import SchemeOptions
from fanfold.schemes.program import RECEIVED, build_program
from fanfold.work.collective import Collective

KIB, MIB = 2**10, 2**20
BYTE_PS = 80  # 100 Gb/s
FULL, ACK = 4160 * BYTE_PS, 64 * BYTE_PS
US = 10**6


def messages(rows, edges=(), on=RECEIVED):
    """Rows of source, destination, bytes and maybe a start; edges of items."""
    table = np.array([(*row, 0)[:4] for row in rows], np.int64)
    return build_program(table, np.array(edges, np.int64).reshape(-1, 2), on=on)


def collective(name, kind, n_bytes, n, *, chunks=0, compact=False):
    """Program of a scheme over the first n hosts."""
    options = SchemeOptions(chunks=chunks, compact=compact)
    return scheme_of(name).build(Collective(kind, n_bytes, tuple(range(n))), options)


def permutation(n, n_bytes, step):
    """Every host to the one ``step`` further on."""
    return messages([(i, (i + step) % n, n_bytes) for i in range(n)])


def alone_ps(n_pkts, links, last_payload=4096):
    """When the last byte of one message has come: docs of the timing model, by hand.

    n packets leave one after the other; each further link adds the time of a full packet, that
    of the only one where there is one; each link flies 1 us.
    """
    last = (last_payload + 64) * BYTE_PS
    return (
        (n_pkts - 1) * FULL + last + (links - 1) * (FULL if n_pkts > 1 else last) + links * US
    )


def back_ps(links):
    """How long an ACK is under way over idle links."""
    return links * (ACK + US)


def max_min(caps, flows):
    """Rates by progressive filling, exactly: fill all evenly, freeze those on a full link."""
    rates = [Fraction(0)] * len(flows)
    is_open = [bool(flow) for flow in flows]
    while any(is_open):
        steps = []
        for link, cap in enumerate(caps):
            used = sum(rates[k] * w for k, f in enumerate(flows) for at, w in f if at == link)
            weight = sum(
                w for k, f in enumerate(flows) if is_open[k] for at, w in f if at == link
            )
            if weight:
                steps.append(((cap - used) / Fraction(weight), link))
        step = min(steps)[0]
        full = {link for s, link in steps if s == step}
        rates = [r + step if o else r for r, o in zip(rates, is_open, strict=True)]
        for k, flow in enumerate(flows):
            if any(at in full for at, _ in flow):
                is_open[k] = False
    return rates
