"""Every deliberate error; the cause decides the type and the exit code.

Message form: what, then (got ...), then what is allowed, or the one allowed word that is near.
"""

from enum import StrEnum

from fanfold.nearest import asked


class ExitCode:
    """Exit codes of every command."""

    OK = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    NO_ENVIRONMENT = 3
    PARTIAL = 4
    TAKEN_OVER = 5
    """Of a push: a newer one has its name, and goes on in its place."""
    INTERRUPTED = 130
    """By Ctrl-C, as a shell says it: 128 and the number of the signal."""
    UNREAD = 141
    """Who read the output went away, as with ``| head -1``; the same of SIGPIPE."""


class FanfoldError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: int = ExitCode.UNEXPECTED


class WireReason(StrEnum):
    """Why bytes of a peer were refused; the same word is counted, traced and reported."""

    TRUNCATED = "truncated"
    TRAILING = "trailing"
    BAD_VERSION = "bad_version"
    BAD_BSL = "bad_bsl"
    BSL_MISMATCH = "bsl_mismatch"
    BAD_BIFT_ID = "bad_bift_id"
    BAD_NIBBLE = "bad_nibble"
    BAD_KIND = "bad_kind"
    BAD_FIELD = "bad_field"
    BAD_CHECKSUM = "bad_checksum"
    BAD_PROTO = "bad_proto"
    NOT_UDP = "not_udp"
    BAD_PORT = "bad_port"


class WireError(FanfoldError):
    """A peer's bytes are malformed: header, reason, and the value that was found."""

    def __init__(self, header: str, reason: WireReason, got: object) -> None:
        super().__init__(f"{header}: {reason} (got {got})")
        self.header = header
        self.reason = reason
        self.got = got


class MisuseError(FanfoldError):
    """Our own caller used a machine wrongly; a bug in a driver."""


class ConfigError(FanfoldError):
    """An operator's file or flag: names the field, the value and what is allowed."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, field: str, got: object, allowed: str) -> None:
        super().__init__(f"{field}: got {got!r}{asked(got, allowed)}")
        self.field = field
        self.got = got
        self.allowed = allowed


class EnvironmentLack(FanfoldError):
    """The machine lacks something: what, how one sees it, what to do."""

    exit_code = ExitCode.NO_ENVIRONMENT


class CheckFailed(FanfoldError):
    """The run ended, but not everything that was asked for came true."""

    exit_code = ExitCode.PARTIAL
