"""`fanfold`: the verbs, and how every error ends: one line and an exit code."""

import json
import os
import sys
from typing import Annotated, Any, cast

import typer

from fanfold import __version__
from fanfold.cli import bfr, demo, lab, push, receive
from fanfold.cli.bitstring import bitstring
from fanfold.cli.decode import decode
from fanfold.cli.dissector import dissector
from fanfold.cli.tables import tell_error
from fanfold.cli.topo import topo
from fanfold.errors import ExitCode, FanfoldError

# typer carries click inside itself or beside itself, as its version has it.
ClickError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="fanfold",
    help="One message to many, many folded into one: BIER forwarding with folded feedback.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"auto_envvar_prefix": "FANFOLD", "help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(push.push)
app.command()(receive.receive)
app.command()(bfr.bfr)
app.add_typer(lab.app, name="lab")
app.command()(bitstring)
app.command()(decode)
app.command()(dissector)
app.command()(topo)


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print it")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run())


def run(args: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    argv = sys.argv[1:] if args is None else args
    try:
        code = app(argv, standalone_mode=False)
    except typer.Exit as done:
        return int(done.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.UNEXPECTED
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("FANFOLD_DEBUG"):
            raise
        return _tell(*_told(error), argv)
    return code if isinstance(code, int) else ExitCode.OK


def _told(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and the exit code: the cause decides."""
    match error:
        case FanfoldError():
            return str(error), error.exit_code
        case typer.Abort() | KeyboardInterrupt():
            return "interrupted", ExitCode.PARTIAL
        case ClickError():
            return cast("Any", error).format_message(), ExitCode.BAD_INPUT
        case _:
            kind = type(error).__name__
            text = f"unexpected {kind}: {error} (FANFOLD_DEBUG=1 shows where)"
            return text, ExitCode.UNEXPECTED


def _tell(line: str, code: int, argv: list[str]) -> int:
    """One line on stderr; with --json an object on stdout as well."""
    text = " ".join(line.split())
    if "--json" in argv:
        print(json.dumps({"error": text, "exit_code": code}))
    tell_error(text)
    return code


if __name__ == "__main__":
    main()
