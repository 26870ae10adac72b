"""How a command ends early whose reason was shown already."""


class Told(Exception):  # noqa: N818 - the name says what happened
    """A command's end whose reason was printed already: its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
