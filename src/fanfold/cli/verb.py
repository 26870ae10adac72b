"""What a command says of its flags: a refusal names the flag, the value, and what is allowed.

typer has words of its own for values that it cannot read, for options and commands that it does
not know and for arguments too many; here they get the form of all other errors. A flag and its
twin in the environment are one: a refused twin is named as well.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from fanfold.errors import ConfigError
from fanfold.nearest import one_of

# typer carries click inside itself or beside itself, as its version has it.
ClickError: type[Exception] = typer.BadParameter.__mro__[2]

_WORDS = {bool: "true or false", int: "a whole number", Path: "a path"}
_UNSET = ("DEFAULT", "DEFAULT_MAP")


def speak(verb: Any) -> None:
    """Let a command, and all below it, refuse in one form."""
    kinds = get_type_hints(verb.callback) if verb.callback else {}
    for option in verb.params:
        allowed = _allowed(kinds.get(option.name)) + _bounds(option.type)
        read = partial(_read, option, allowed, option.process_value)
        option.process_value = read
    verb.parse_args = partial(_parse, verb.parse_args)
    below = getattr(verb, "commands", None)
    if below is None:
        verb.allow_extra_args = True  # they are refused here, by name
        verb.invoke = partial(_invoke, verb.invoke)
        return
    verb.resolve_command = partial(_resolve, verb.resolve_command)
    for each in below.values():
        speak(each)


def given(ctx: typer.Context) -> list[str]:
    """Parameters that somebody set, on the line or by a twin."""
    return [name for name in ctx.params if _source(ctx, name) not in _UNSET]


def refuse(ctx: typer.Context, names: Collection[str], allowed: str) -> None:
    """Refuse the first of these parameters that was given: here it would change nothing.

    Raises:
        ConfigError: it, its value, and where it would count.
    """
    for name in given(ctx):
        if name in names:
            value = ctx.params[name]
            got = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
            raise ConfigError(name, str(got) if isinstance(got, Path) else got, allowed)


def refuse_but(ctx: typer.Context, names: Collection[str], allowed: str) -> None:
    """Refuse all parameters but these."""
    refuse(ctx, [name for name in ctx.params if name not in names], allowed)


def _parse(parse: Callable[..., Any], ctx: Any, args: list[str]) -> Any:
    """Words of a command line by the parser; what it refuses has our form."""
    is_bare = not args
    try:
        return parse(ctx, args)
    except ClickError as error:
        raise _misused(ctx, error, is_bare=is_bare) from error


def _misused(ctx: Any, error: Any, *, is_bare: bool) -> ConfigError:
    """An option unknown, without its value or with one that it does not take."""
    commands = getattr(ctx.command, "commands", None)
    if is_bare and commands is not None:  # its help was shown already
        return ConfigError("command", "nothing", ", ".join(sorted(commands)))
    name = getattr(error, "option_name", None)
    if name is None:
        return ConfigError("command line", error.format_message(), "what --help shows")
    known = {flag: option for option in ctx.command.params for flag in _all_flags(option)}
    if name not in known:
        flags = [flag for flag in known if flag.startswith("--")]
        return ConfigError(
            "option", name, one_of(name, sorted([*flags, "--help"]), what="an option")
        )
    if getattr(known[name], "is_flag", False):
        return ConfigError(name, "a value", "none: given or left out")
    return ConfigError(name, "nothing", known[name].help or "a value")


def _read(option: Any, allowed: str, read: Callable[..., Any], ctx: Any, value: Any) -> Any:
    """One value by its type and its callback; refusals name it."""
    try:
        if _source(ctx, option.name) not in _UNSET:
            _check_empty(value, option.name, option.help or allowed)
        return read(ctx, value)
    except ConfigError as error:
        raise _named(ctx, error) from error
    except (typer.Abort, typer.Exit):
        raise
    except ClickError as error:
        if value is None:
            raise ConfigError(_shown(option), "nothing", option.help or "a value") from error
        if allowed == _WORDS[Path] and Path(value).exists():
            allowed = "a file or folder that this user may read"
        raise _named(ctx, ConfigError(option.name, value, allowed)) from error


def _bounds(kind: Any) -> str:
    """The range of a number that has one."""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is None and most is None:
        return ""
    return f", {'' if least is None else least}..{'' if most is None else most}"


def _check_empty(value: Any, name: str, allowed: str) -> None:
    """Blanks are no value, nor is nothing at all the current folder."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if isinstance(each, str) and not each.strip():
            raise ConfigError(name, each, allowed)


def _invoke(invoke: Callable[..., Any], ctx: Any) -> Any:
    """Run a command; what it refuses by a parameter's name is called by the flag."""
    if ctx.args:
        takes = [option for option in ctx.command.params if not _flags(option)]
        after = f"nothing after {_shown(takes[-1])}" if takes else "options only"
        raise ConfigError("argument", ctx.args[0], after)
    try:
        return invoke(ctx)
    except ConfigError as error:
        raise _named(ctx, error) from error


def _resolve(resolve: Callable[..., Any], ctx: Any, args: list[str]) -> Any:
    known = ctx.command.commands
    if args[0] not in known and not ctx.resilient_parsing:  # a shell completes it
        raise ConfigError("command", args[0], one_of(args[0], sorted(known), what="a command"))
    return resolve(ctx, args)


def _named(ctx: Any, error: ConfigError) -> ConfigError:
    """The error by flag instead of parameter, with the twin that set it.

    Only for what was given: a scenario file has keys of the same names.
    """
    for option in ctx.command.params:
        source = _source(ctx, option.name)
        if source in _UNSET:
            continue
        if error.field.lstrip("-").replace("-", "_") in _names(option):
            twin = f" (of {_twin(ctx, option)})" if source == "ENVIRONMENT" else ""
            return ConfigError(_shown(option) + twin, error.got, error.allowed)
    return error


def _names(option: Any) -> set[str]:
    return {option.name, *(flag[2:].replace("-", "_") for flag in _flags(option))}


def _twin(ctx: Any, option: Any) -> str:
    return option.envvar or f"{ctx.auto_envvar_prefix}_{option.name.upper()}"


def _source(ctx: Any, name: str) -> str:
    source = ctx.get_parameter_source(name)
    return source.name if source is not None else "DEFAULT"


def _shown(option: Any) -> str:
    """Flag of an option, metavar of an argument."""
    flags = _flags(option)
    return flags[0] if flags else str(option.metavar or option.name).upper()


def _flags(option: Any) -> list[str]:
    return [flag for flag in option.opts if flag.startswith("--")]


def _all_flags(option: Any) -> Iterator[str]:
    yield from (*option.opts, *option.secondary_opts)


def _allowed(kind: Any) -> str:
    """What a parameter of a type may be, in words."""
    for each in (kind, *get_args(kind)):
        if each in _WORDS:
            return _WORDS[each]
    return "text"
