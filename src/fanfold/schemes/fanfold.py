"""fanfold: BIER down, and the feedback of all receivers folded by the BFRs on its way up.

Data is not folded in the network yet: sums go by unicast as with plain BIER.
"""

from fanfold.schemes import bier
from fanfold.schemes.draft import Plan
from fanfold.schemes.options import SchemeOptions
from fanfold.work.collective import Collective


def plan(work: Collective, options: SchemeOptions) -> Plan:
    """Broadcast, all_gather, all_reduce."""
    return bier.plan(work, options, folds=True)
