"""`fanfold`: the verbs, and how every error ends: one line and an exit code."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

from fanfold.cli.complete import offer_words, words_so_far
from fanfold.cli.end import Told
from fanfold.cli.examples import show_examples
from fanfold.cli.flag_groups import taken_apart
from fanfold.cli.verb import speak
from fanfold.cli.verbs import VERBS, Verb
from fanfold.errors import ExitCode, FanfoldError
from fanfold.version import VERSION

PREFIX = "FANFOLD"
TRUE = ("1", "true", "yes", "on", "t", "y")


def _show_version(value: bool) -> None:
    if value:
        print(VERSION)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print it")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run())


def run(args: list[str] | None = None, *, ready: Callable[[], object] | None = None) -> int:
    """Run one command; the exit code.

    Args:
        ready: called when all is imported, before the command begins.
    """
    argv = sys.argv[1:] if args is None else args
    try:
        so_far = words_so_far()
        verb = command(argv if so_far is None else so_far)
        if so_far is not None:
            return _complete(verb)
        if ready is not None:
            ready()
        code = _code_of(verb, argv)
        print(end="", flush=True)  # what is wrong with the output shows here, not after the end
    except Told as end:
        return end.code
    except (BrokenPipeError, SystemExit):  # rich makes the second of the first
        _forget_output()
        return ExitCode.UNREAD
    except (Exception, KeyboardInterrupt) as error:
        if _is_on("FANFOLD_DEBUG"):
            raise
        return _tell(*_told(error), argv)
    if code == ExitCode.INTERRUPTED:  # typer's own end of a Ctrl-C, without a word
        return _tell(*_told(KeyboardInterrupt()), argv)
    return code


def _complete(verb: Any) -> int:
    """Print what a shell may go on with; what is wrong on its line is not the time to say."""
    offer_words(verb)
    try:
        verb([], prog_name="fanfold", standalone_mode=True)
    except SystemExit as end:
        print(end="", flush=True)
        return end.code if isinstance(end.code, int) else ExitCode.OK
    return ExitCode.OK


def _code_of(verb: Any, argv: list[str]) -> int:
    try:
        code = verb(argv, standalone_mode=False)
    except typer.Exit as done:
        return int(done.exit_code)
    return code if isinstance(code, int) else ExitCode.OK


def _forget_output() -> None:
    """What is still to be written goes nowhere, or Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def command(argv: list[str] | None = None) -> Any:
    """All verbs, or of a command line only its own: the others are a name and a line of help.

    Each option's twin in the environment is named as the option is.

    By itself a twin is named for the parameter, FANFOLD_PUSH_AS_JSON for ``--json``; that name
    works on as well.
    """
    words = [word for word in argv or () if not word.startswith("-")]
    app = typer.Typer(
        name="fanfold",
        help="One message to many, many folded into one: BIER forwarding with folded feedback.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=True,
        context_settings={"auto_envvar_prefix": PREFIX, "help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for verb in VERBS:
        if argv is None or words[:1] == [verb.name]:
            _add(app, verb)
        else:
            app.command(verb.name, help=verb.help)(_of_another_line)
    made: Any = typer.main.get_command(app)
    _name_twins(made, PREFIX)
    show_examples(made)
    speak(made)
    return made


def _add(app: typer.Typer, verb: Verb) -> None:
    module = importlib.import_module(verb.module)
    below = getattr(module, "app", None)
    if below is None:
        app.command(verb.name)(taken_apart(getattr(module, verb.name.replace("-", "_"))))
    else:
        app.add_typer(below, name=verb.name)


def _of_another_line() -> None:
    """Stands for a verb that the command line does not name."""


def _name_twins(verb: Any, prefix: str) -> None:
    for option in verb.params:
        flags = [flag for flag in option.opts if flag.startswith("--")]
        own = f"--{option.name.replace('_', '-')}"
        if flags and own not in flags and option.envvar is None:
            option.envvar = f"{prefix}_{_upper(flags[0][2:])}"
    for name, below in getattr(verb, "commands", {}).items():
        _name_twins(below, f"{prefix}_{_upper(name)}")


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")


def _is_json(argv: list[str]) -> bool:
    """JSON is asked for, by flag or by its twin."""
    words = [_upper(word) for word in argv if not word.startswith("-")][:2]
    twins = ["_".join([PREFIX, *words[:n], "JSON"]) for n in range(1, len(words) + 1)]
    return "--json" in argv or any(map(_is_on, twins))


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in TRUE


def _told(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and the exit code: the cause decides."""
    match error:
        case FanfoldError():
            return str(error), error.exit_code
        case typer.Abort() | KeyboardInterrupt():
            return "interrupted", ExitCode.INTERRUPTED
        case MemoryError():
            text = f"memory: {str(error) or 'not enough'}; ask for less"
            return text, ExitCode.NO_ENVIRONMENT
        case OSError() if error.strerror:
            where = error.filename or "input or output"
            return f"{where}: {error.strerror}", ExitCode.NO_ENVIRONMENT
        case _:
            kind = type(error).__name__
            text = f"unexpected {kind}: {error} (FANFOLD_DEBUG=1 shows where)"
            return text, ExitCode.UNEXPECTED


def _tell(line: str, code: int, argv: list[str]) -> int:
    """One line on stderr; with --json an object on stdout as well."""
    text = " ".join(line.split())
    if _is_json(argv):
        with suppress(OSError):  # it may be what failed
            print(json.dumps({"error": text, "exit_code": code}), flush=True)
    from fanfold.cli.console import tell_error  # noqa: PLC0415 - where all went well, no rich

    tell_error(text)
    return code


if __name__ == "__main__":
    main()
