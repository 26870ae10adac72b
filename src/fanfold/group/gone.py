"""Why a rank cannot go on, in words."""

from fanfold.live.rank_late import FALSE_SUM, LEFT_OUT, NO_MEMBER, OVERTAKEN, UNCHECKED

GONE_TEXTS = {
    OVERTAKEN: "rank {} was late, the others went on, and the result is no longer kept",
    NO_MEMBER: "rank {} was late, and the group went on without it",
    LEFT_OUT: "rank {} was late, and is left out of the group",
    FALSE_SUM: "a false sum came to rank {}: a BFR on the way added wrongly, or ranks have "
    "other secrets; nothing of this result is to be used",
    UNCHECKED: "a sum that rank {} was to check outgrew its words; use a wider kind",
}
