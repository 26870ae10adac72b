"""`fanfold push`: a file or directory to many hosts, and a table of what crossed each link."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import BarColumn, Progress, TaskID, TimeRemainingColumn

from fanfold.api.keys import Place, Signing
from fanfold.api.one_push import Order, Stoppable, Watch, terms_of
from fanfold.api.pushing import run_push
from fanfold.api.site import Site
from fanfold.cli.bars import Words
from fanfold.cli.console import error_screen, print_json, tell_error, tell_warning
from fanfold.cli.end import Told
from fanfold.cli.key_flags import KeyFolder, KeyLogFile, Receipts, Seal, Sign, Trusted
from fanfold.cli.seed import checked_seed
from fanfold.cli.tables import show_push
from fanfold.cli.telling import Say, telling
from fanfold.cli.verb import refuse
from fanfold.errors import CheckFailed, ExitCode
from fanfold.live.capture import WHOLE
from fanfold.live.lab import Lab
from fanfold.push.result import PushResult, require_complete
from fanfold.push.source import Wish
from fanfold.topo.planes import AUTO
from fanfold.topo.relays import NONE

Loss = Annotated[
    list[str] | None,
    typer.Option("--loss", help="0.01@leaf1-h3, or 0.01 for every link (labs only)"),
]
Impair = Annotated[
    list[str] | None,
    typer.Option(
        "--impair",
        help="drop=, duplicate=, reorder=, corrupt=, delay=, hold=, rate=; by commas; @LINK, "
        "in place of what all links have",
    ),
]

AsName = Annotated[
    str,
    typer.Option(
        "--as",
        help="name at the receivers, a path below their folder; . puts what a folder holds "
        "there, file by file; a / after PATH changes nothing  [default: its own name]",
        show_default=False,
    ),
]
Delete = Annotated[
    bool,
    typer.Option("--delete", help="files of that folder at a receiver that PATH has not, go"),
]
Follow = Annotated[
    list[Path] | None,
    typer.Option("--follow", help="a folder beside PATH that symbolic links may lead to"),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="refuse broken safetensors and indexes, not only say so"),
]

Repair = Annotated[
    str, typer.Option(help="nearest: by BFRs that keep it; source: by nobody else")
]
Planes = Annotated[str, typer.Option(help="auto, or those of the source to use, such as 1,2")]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="from a push of the same that is alive, without waiting"),
]
AvoidGray = Annotated[
    bool,
    typer.Option(
        "--avoid-gray",
        help="links that this push finds to lose or damage packets are left out of the lab's "
        "tables where there is another way, and tried again later",
    ),
]
Relay = Annotated[
    str,
    typer.Option(
        help="auto: one host of each other site, by the cost map, gets it and sends it on "
        "there; or these hosts (labs only)"
    ),
]
Patience = Annotated[
    str, typer.Option(help="wait this long for the silent when all others have ended")
]
Snaplen = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=WHOLE,
        help="bytes of each packet for --pcap, 0: all  [default: headers and 128 more]",
        show_default=False,
    ),
]

Attest = Annotated[
    Path | None,
    typer.Option(
        "--attest", help="a list of software that receivers are to run", show_default=False
    ),
]
OnlyThrough = Annotated[
    str,
    typer.Option(
        "--only-through", help="a label that all nodes on its way have, such as region=eu"
    ),
]
BEYOND_LABS = (
    (("lab",), "whose nodes are in no lab"),
    (("avoid_gray",), "whose tables fanfold may change"),
    (("loss", "impair", "pcap", "snaplen"), "which reach the nodes of a lab only"),
)


class Wished(NamedTuple):
    """How it is to arrive."""

    as_name: AsName = ""
    delete: Delete = False
    follow: Follow = None
    strict: Strict = False


class Sent(NamedTuple):
    """How it is sent."""

    rate: Annotated[str, typer.Option(help="auto, or a cap such as 5Gbps")] = "auto"
    patience: Patience = "30s"
    repair: Repair = "nearest"
    planes: Planes = AUTO
    take_over: TakeOver = False
    avoid_gray: AvoidGray = False
    relay: Relay = NONE


class Secured(NamedTuple):
    """Who vouches for it, and what for."""

    sign: Sign = False
    seal: Seal = False
    keys: KeyFolder = None
    trusted: Trusted = None
    keylog: KeyLogFile = None
    receipts: Receipts = None
    only_through: OnlyThrough = ""
    attest: Attest = None


class Observed(NamedTuple):
    """What befalls it in a lab, and what of it is kept."""

    loss: Loss = None
    impair: Impair = None
    seed: Annotated[
        int, typer.Option(help="seed of the impairments", callback=checked_seed)
    ] = 1
    pcap: Annotated[Path | None, typer.Option(help="write a pcapng of every BFR port")] = None
    snaplen: Snaplen = None


def push(
    ctx: typer.Context,
    path: Annotated[
        Path, typer.Argument(help="file or folder; arrives as one of its name, a folder whole")
    ],
    *,
    to: Annotated[str, typer.Option(help="all, or names such as h1,h3-5")] = "all",
    source: Annotated[str, typer.Option("--from", help="sending host")] = "h0",
    lab: Annotated[str, typer.Option("--lab", "--name", help="lab on this machine")] = "lab",
    config: Annotated[Path | None, typer.Option(help="fabric TOML of several machines")] = None,
    wished: Wished,
    sent: Sent,
    secured: Secured,
    observed: Observed,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Send PATH to many hosts with one copy on each link; verified at every receiver."""
    if config is not None:
        for names, allowed in BEYOND_LABS:
            refuse(ctx, names, f"none beside --config, {allowed}")
    site = Site(Lab(lab), config, tell_warning)
    as_name, delete, follow, strict = wished
    only_through = secured.only_through
    wish = Wish(as_name, delete, tuple(follow or ()), strict, only_through=only_through)
    terms = terms_of(*sent[:4])
    terms = terms._replace(takes_over=sent.take_over, avoids_gray=sent.avoid_gray)
    place = Place(secured.keys, secured.trusted)
    signing = Signing(secured.sign, secured.seal, place)
    loss, impair, seed, *_ = observed
    capture = observed.pcap, observed.snaplen
    rest = seed, capture, wish, signing, secured.receipts, secured.attest
    order = Order(path, source, to, terms, loss or (), impair or (), *rest, sent.relay)
    result = run_shown(site, order, is_shown=not as_json)
    finish(result, as_json)


def finish(result: PushResult, as_json: bool) -> None:
    """Print a result once; an incomplete push ends with the reason on stderr and code 4.

    One that a signal stopped ends with 130: its receivers were told to close.
    """
    if as_json:
        print_json(result)
    else:
        show_push(result)
    try:
        require_complete(result)
    except CheckFailed as error:
        tell_error(str(error))
        code = ExitCode.INTERRUPTED if result.is_interrupted else error.exit_code
        raise Told(code) from error


def run_shown(site: Site, order: Order, *, is_shown: bool) -> PushResult:
    """One push with bars on a terminal, ended in good order by a signal."""
    with _Bars(is_shown) as bars, _Signals() as signals:
        bars.signals = signals
        return run_push(site, order, bars)


class _Signals:
    """Ctrl-C and SIGTERM end a push in good order; before it began, or twice, at once."""

    def __init__(self) -> None:
        self.stop: Callable[[], None] | None = None

    def __enter__(self) -> "_Signals":
        ends = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._on_signal) for number in ends}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, *_: object) -> None:
        stop, self.stop = self.stop, None
        if stop is None:
            raise KeyboardInterrupt
        stop()


class _Bars(Watch):
    """A bar for each receiver on stderr; nothing when it is not a terminal or not wanted."""

    def __init__(self, is_shown: bool) -> None:
        console = error_screen()
        self._bars = Progress(
            Words("{task.description:>8}"),
            BarColumn(40),
            Words("{task.percentage:>4.0f} %"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (is_shown and console.is_terminal),
        )
        self._tasks: dict[str, TaskID] = {}
        self._is_shown = is_shown
        self.signals = _Signals()
        self._before = ExitStack()
        self._say: Say | None = None

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *error: object) -> None:
        self._before.close()
        self._bars.stop()

    def warming(self, text: str) -> None:
        if self._say is None:
            self._say = self._before.enter_context(telling())
        self._say(text)

    def began(self, job: Stoppable) -> None:
        self.signals.stop = job.stop

    def warn(self, text: str) -> None:
        tell_warning(text)

    def silent(self, name: str, waits_s: float) -> None:
        if not self._is_shown:
            return
        text = f"{name} is silent: waited for while others are served, then for {waits_s:g} s"
        self._bars.console.print(f"{name} is back" if waits_s < 0 else text)

    def progress(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._before.close()
            self._bars.start()
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done, total=total)
