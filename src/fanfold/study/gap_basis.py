"""Numbers of the gap table that no run gave: by definition, or asked for, each with the reason.

All others are measured: by runs of the packet simulator, by tree protocols' own messages, by
packets sent hop by hop.
"""

from fanfold.study.gap_ground import SchemeRow

GIVEN_DETECT = "given: --detect, until BFD notices a dead link (RFC 5880)"
IN_PACKET = "by definition: who receives is said in each packet, nothing is sent before"
BY_SOURCE = "by definition: the source sends a copy to each, nobody else is told"
FLOODED = "by definition: the IGP floods BFR-ids once for a domain, not for a group"
NO_ROUTER = "by definition: routers forward unicast alone"
TABLES = (
    "counted: a BIFT entry for each BFR-id, kept once for all groups, and slots of one block"
)
PUSH = "counted: a REPORT of each member before and after, one CLOSE (docs/wire)"
SUBJECT = ("setup_ps", "join_ps", "leave_ps", "change_msgs", "change_writes")
KEPT = ("state_kinds", "state_entries", "most_entries")


def basis_of(row: SchemeRow, metric: str) -> str:
    """Why nobody measured a number of a row; empty where it was."""
    if metric == "detect_ps":
        return "" if row.program == "fanfold" else GIVEN_DETECT
    if row.protocol:
        return ""
    is_named = row.program in ("bier", "fanfold")
    if metric in SUBJECT and (is_named or row.program == "unicast"):
        return IN_PACKET if is_named else BY_SOURCE
    if metric in KEPT:
        return TABLES if is_named else NO_ROUTER
    if metric == "control_msgs":
        return {"unicast": BY_SOURCE, "bier": FLOODED, "fanfold": PUSH}.get(row.program, "")
    return ""
