"""A rank's end of a group in one plane of several: it can be left in the middle.

Where an operation is left, some ranks have sent more blocks of it than others. All go on with
the same later number: BFRs let a slot go for a block that is newer, and drop what is older.
"""

from fanfold.live.rank import RankEnd

NUMBERS = 1 << 32


class StrandEnd(RankEnd):
    """An end whose slots are asked for once, as many as any operation needs."""

    def ask_for_slots(self, n_blocks: int) -> None:
        """Nothing: all ranks know how many slots are asked for, whatever they were left in."""

    def ask_for_more(self, n_blocks: int) -> bool:
        """Nothing more."""
        return False

    def sent_up_to(self) -> int:
        """A number above that of every block that this rank has sent."""
        begun = int(self.state.row[0]["base"]) + int(self.state.job[0]["next"])
        return begun % NUMBERS

    def go_on_at(self, block: int) -> None:
        """The next batch begins with this number."""
        self.state.row[0]["base"] = block % NUMBERS
        self.state.job[0]["next"] = 0
