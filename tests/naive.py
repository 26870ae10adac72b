"""Slow twins of kernels: sets, dicts and Python ints, obviously right."""

NO_NBR = -1


def replicate(receivers: set[int], nbr_of: dict[int, int]) -> dict[int, set[int]]:
    """RFC 8279 section 6.5: receivers by BFR-NBR; those of the null next hop are dropped."""
    copies: dict[int, set[int]] = {}
    for receiver in receivers:
        if (nbr := nbr_of[receiver]) != NO_NBR:
            copies.setdefault(nbr, set()).add(receiver)
    return copies


def replicate_by_masks(
    bits: int, nbr_of: list[int], f_bm: dict[int, int]
) -> list[tuple[int, int]]:
    """RFC 8279 section 6.5 to the letter: (BFR-NBR, BitString) of each copy, null ones too."""
    copies = []
    while bits:  # step 2
        k = (bits & -bits).bit_length() - 1  # step 3
        nbr = nbr_of[k]  # steps 4 to 6
        copies.append((nbr, bits & f_bm[nbr]))  # step 7
        bits &= ~f_bm[nbr]  # step 8
    return copies
