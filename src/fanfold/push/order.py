"""Which files of a push come last: those by which readers know that the others are there."""

DATA, INDEX, MARKER = range(3)
INDEX_ENDS = (".index.json", ".index")
MARKERS = frozenset(
    {
        "_committed",
        "_success",
        "_complete",
        "commit_success.txt",
        "checkpoint",
        "latest",
        "latest_checkpointed_iteration.txt",
        "latest_universal",
    }
)
MARKER_ENDS = (".done", ".complete", ".completed", ".ready", ".success", ".committed", ".ok")


def rank_of(path: str) -> int:
    """DATA, then INDEX, then MARKER.

    A marker is one that frameworks are known to write, or a name all in capitals without a
    dot, as ``_SUCCESS``: a license that comes last as well does no harm.
    """
    name = path.rpartition("/")[2]
    low = name.lower()
    is_loud = name.isupper() and "." not in name
    if is_loud or low in MARKERS or low.endswith(MARKER_ENDS):
        return MARKER
    return INDEX if low.endswith(INDEX_ENDS) else DATA
