"""Columns of progress bars."""

from rich.progress import Task, TextColumn
from rich.text import Text

from fanfold.cli.console import printable


class Words(TextColumn):
    """A column of a progress bar; its text is no markup."""

    def __init__(self, text_format: str) -> None:
        super().__init__(text_format, markup=False)

    def render(self, task: Task) -> Text:
        """Text as wide as what is shown."""
        return Text(printable(self.text_format.format(task=task)))
