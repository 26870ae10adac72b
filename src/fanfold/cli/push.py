"""`fanfold push`: a file or directory to many hosts, and a table of what crossed each link."""

import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import BarColumn, Progress, TaskID, TimeRemainingColumn

from fanfold.cli.console import (
    Told,
    Words,
    error_screen,
    print_json,
    tell_error,
    tell_warning,
)
from fanfold.cli.push_capture import (
    check_capture,
    end_capture,
    snaplen_of,
    start_capture,
    tell_size,
)
from fanfold.cli.seed import checked_seed
from fanfold.cli.site import Site
from fanfold.cli.tables import show_push
from fanfold.cli.telling import telling
from fanfold.cli.verb import refuse
from fanfold.errors import CheckFailed, ConfigError, ExitCode
from fanfold.ids import expand_nodes
from fanfold.impair import LinkImpairment, parse_impairment, parse_loss
from fanfold.live.capture import WHOLE
from fanfold.live.lab import Lab
from fanfold.live.warm import is_compiled, warm
from fanfold.push.sending import PATIENCE_PS
from fanfold.push.service import (
    OWN_NAME,
    Push,
    PushResult,
    require_complete,
)
from fanfold.push.source import Wish
from fanfold.units import parse_duration, parse_rate

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


class Terms(NamedTuple):
    """How fast a push may go, 0 = auto, and how long it waits for those who are silent."""

    cap_bps: int = 0
    patience_ps: int = PATIENCE_PS


class Order(NamedTuple):
    """What is to be pushed where, as it stands on the command line.

    losses, impairs, seed: what befalls links of a lab meanwhile. capture: --pcap, --snaplen.
    """

    path: Path
    source: str = "h0"
    to: str = "all"
    terms: Terms = Terms()
    losses: Sequence[str] = ()
    impairs: Sequence[str] = ()
    seed: int = 1
    capture: tuple[Path | None, int | None] = (None, None)
    wish: Wish = OWN_NAME


BEYOND_LABS = (
    (("lab",), "whose nodes are in no lab"),
    (("loss", "impair", "pcap", "snaplen"), "which reach the nodes of a lab only"),
)


def push(
    ctx: typer.Context,
    path: Annotated[
        Path, typer.Argument(help="file or folder; arrives as one of its name, a folder whole")
    ],
    to: Annotated[str, typer.Option(help="all, or names such as h1,h3-5")] = "all",
    source: Annotated[str, typer.Option("--from", help="sending host")] = "h0",
    lab: Annotated[str, typer.Option("--lab", "--name", help="lab on this machine")] = "lab",
    config: Annotated[Path | None, typer.Option(help="fabric TOML of several machines")] = None,
    as_name: AsName = "",
    delete: Delete = False,
    follow: Follow = None,
    strict: Strict = False,
    rate: Annotated[str, typer.Option(help="auto, or a cap such as 5Gbps")] = "auto",
    patience: Annotated[
        str, typer.Option(help="wait this long for the silent when all others have ended")
    ] = "30s",
    loss: Loss = None,
    impair: Impair = None,
    seed: Annotated[
        int, typer.Option(help="seed of the impairments", callback=checked_seed)
    ] = 1,
    pcap: Annotated[Path | None, typer.Option(help="write a pcapng of every BFR port")] = None,
    snaplen: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=WHOLE,
            help="bytes of each packet for --pcap, 0: all  [default: headers and 128 more]",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Send PATH to many hosts with one copy on each link; verified at every receiver."""
    if config is not None:
        for names, allowed in BEYOND_LABS:
            refuse(ctx, names, f"none beside --config, {allowed}")
    site = Site(Lab(lab), config)
    wish = Wish(as_name, delete, tuple(follow or ()), strict)
    terms = Terms(rate_cap(rate), parse_duration(patience, "--patience"))
    order = Order(
        path, source, to, terms, loss or (), impair or (), seed, (pcap, snaplen), wish
    )
    result = run_push(site, order, is_shown=not as_json)
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


def run_push(
    site: Site,
    order: Order,
    *,
    is_shown: bool,
) -> PushResult:
    """Everything around one push: names, impairments, captures, progress, interrupts."""
    fabric = site.fabric
    hosts = [n.name for n in fabric.nodes if n.role == "host"]
    source, targets = ends_of(hosts, order.source, order.to)
    links = {frozenset((link.a, link.b)) for link in fabric.links}
    impairments = mishaps_of(order.losses, order.impairs, links)
    seed, pcap = order.seed, order.capture[0]
    snaplen = snaplen_of(fabric, order.capture[1])
    check_capture(pcap, order.path)
    if not is_compiled():  # half a minute before the first bar
        with telling() as say:
            warm(say)
    with _Bars(is_shown) as bars, _Signals() as signals:
        cap, ask = order.terms.cap_bps, partial(site.begin_statuses, source=source)
        job = Push(fabric, source, targets, order.path, cap, bars.show, ask, order.wish)
        job.patience_ps = order.terms.patience_ps
        job.on_silence = bars.tell
        for line in job.warnings:
            tell_warning(line)
        job.tell = tell_warning
        if pcap is not None:
            tell_size(job, pcap, snaplen)
        signals.stop = job.stop
        raw = start_capture(site, pcap, snaplen)
        if impairments:
            site.impair(impairments, seed)
            job.impair(impairments, seed)
        try:
            result = job.run()
        finally:
            if impairments:
                site.impair([], 0)
            end_capture(site, pcap, raw)
    return result


def ends_of(hosts: list[str], source: str, to: str) -> tuple[str, list[str]]:
    """The source and who receives, which it does not."""
    sources = expand_nodes(source, hosts, "--from")
    if len(sources) > 1:
        raise ConfigError("--from", source, "one host")
    others = [host for host in hosts if host != sources[0]]
    targets = others if to == "all" else [*expand_nodes(to, hosts, "--to")]
    if len(targets) > 1 and sources[0] in targets:
        raise ConfigError("--to", to, f"hosts other than {sources[0]}, which sends")
    return sources[0], targets


def mishaps_of(
    losses: Iterable[str], others: Iterable[str], links: set[frozenset[str]]
) -> list[LinkImpairment]:
    """What befalls links, of all links first, so that a link's own replaces it.

    Raises:
        ConfigError: a wrong one, or a second one for the same place.
    """
    given = [("--loss", text, parse_loss(text, links, "--loss")) for text in losses]
    given += [("--impair", text, parse_impairment(text, links, "--impair")) for text in others]
    places: set[tuple[str, str]] = set()
    for flag, text, one in given:
        if (one.a, one.b) in places:
            raise ConfigError(flag, text, "one for each link, as --impair drop=1%,rate=5Mbps")
        places.add((one.a, one.b))
    return sorted((one for _, _, one in given), key=lambda one: bool(one.a))


def rate_cap(rate: str) -> int:
    """Bits per second of ``--rate``, 0 for auto."""
    if rate == "auto":
        return 0
    try:
        return parse_rate(rate, "--rate")
    except ConfigError as error:
        raise ConfigError("--rate", rate, "auto, or more than 0 such as 5Gbps") from error


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


class _Bars:
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

    def __enter__(self) -> "_Bars":
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def tell(self, name: str, waits_s: float) -> None:
        """A receiver fell silent, and is waited for so long; below 0 it speaks again."""
        if not self._is_shown:
            return
        text = f"{name} is silent: waited for while others are served, then for {waits_s:g} s"
        self._bars.console.print(f"{name} is back" if waits_s < 0 else text)

    def show(self, name: str, done: int, total: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        self._bars.update(self._tasks[name], completed=done, total=total)
