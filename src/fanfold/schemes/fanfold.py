"""fanfold: data goes down by BIER, feedback and arrays are folded on their way up.

Sums are made in the BFRs on the way up, and the result fans down by the bitmap that collected
it (docs/wire/fold.md). A group is within one set of BFR-ids; hosts that no BitString names
together add up as with plain BIER, by unicast.
"""

from fanfold.schemes import bier, binary_tree
from fanfold.schemes.draft import Draft, SchemePlan
from fanfold.schemes.options import SchemeOptions
from fanfold.wire.bitstring import LENGTHS
from fanfold.work.collective import Collective

SUM_KINDS = ("reduce", "all_reduce")


def plan(work: Collective, options: SchemeOptions) -> SchemePlan:
    """Broadcast, all_gather: fans. Reduce, all_reduce: a sum."""
    sets = {host // LENGTHS[-1] for host in work.hosts}
    if work.kind == "reduce" and len(sets) > 1:
        return binary_tree.plan(work, options)
    if work.kind not in SUM_KINDS or len(sets) > 1:
        return bier.plan(work, options, folds=True)
    draft = Draft(work)
    draft.sum(0, work.n_bytes, to_all=work.kind == "all_reduce")
    return draft.finish(options, folds=True)
