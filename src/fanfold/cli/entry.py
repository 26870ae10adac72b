"""`fanfold` as the shell calls it: Ctrl-C ends it in one line while it still imports, too."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from fanfold.cli.main import run  # noqa: PLC0415 - these imports are what may be stopped

        code = run()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        code = 130
    sys.exit(code)
