"""Flags of `fanfold workload`, and what they ask for."""

from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from fanfold.cli.seed import checked_seed
from fanfold.errors import ConfigError
from fanfold.units import parse_duration, parse_rate, parse_size
from fanfold.work.count_text import parse_count
from fanfold.work.gate import DEFAULT_SKEW_MILLI, GATES, GateKind
from fanfold.work.inter_dc import PRICE_MICRO
from fanfold.work.model import Dtype, Model, dtype_of
from fanfold.work.model_config import check_no_count, load_model
from fanfold.work.parallel import Degrees
from fanfold.work.presets import preset_of
from fanfold.work.volumes import WorkloadRequest
from fanfold.work.weights import load_weights

DEFAULT_GPUS = 64
DEFAULT_REPLICAS = 8
MAX_TIME_PS = 10**18
TERA = 10**12

WorkName = Annotated[
    str | None, typer.Argument(help="such as training, or chakra:FOLDER, goal:FILE")
]
Seed = Annotated[int, typer.Option(help="of all that is drawn", callback=checked_seed)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
ModelName = Annotated[str, typer.Option(help="a preset, or a config.json of Hugging Face")]
Parameters = Annotated[
    str | None, typer.Option(help="of a model whose family is not known, such as 70e9")
]
Gpus = Annotated[int | None, typer.Option(help="default: of the preset, else 64")]
Tp = Annotated[int | None, typer.Option(help="tensor-parallel degree")]
Pp = Annotated[int | None, typer.Option(help="pipeline stages")]
Ep = Annotated[int | None, typer.Option(help="expert-parallel degree")]
Zero = Annotated[int | None, typer.Option(help="0..3; 3 is FSDP")]
Seq = Annotated[int | None, typer.Option(help="tokens of a sequence")]
MicroBatch = Annotated[int | None, typer.Option(help="sequences of one")]
NMicro = Annotated[int | None, typer.Option(help="micro-batches an iteration")]
Recompute = Annotated[
    bool | None, typer.Option("--recompute/--no-recompute", help="activations")
]
SequenceParallel = Annotated[
    bool | None, typer.Option("--sequence-parallel/--no-sequence-parallel", help="beside tp")
]
DispatchDtype = Annotated[str | None, typer.Option(help="of tokens on the way to experts")]
Gate = Annotated[str | None, typer.Option(help=", ".join(GATES))]
Skew = Annotated[int, typer.Option(help="of zipf, thousandths")]
Trace = Annotated[Path | None, typer.Option(help="tokens to experts: .npz, .parquet")]
Tokens = Annotated[int, typer.Option(help="of one layer; 0: 128 a rank")]
Node = Annotated[int, typer.Option(help="GPUs of a node")]
Bits = Annotated[int, typer.Option(help="of a BitString; 0: what holds all ranks")]
Payload = Annotated[int, typer.Option(help="bytes of a packet; 0: a token")]
Size = Annotated[str | None, typer.Option(help="of what is pushed; default: the model")]
Regions = Annotated[int, typer.Option(help="of a push")]
Replicas = Annotated[
    int | None, typer.Option(help="in a region, that start, store, train or send; default 8")
]
Rate = Annotated[str, typer.Option(help="of the source's link")]
Within = Annotated[str, typer.Option(help="time in which replicas start")]
Rounds = Annotated[int, typer.Option(help="of federated learning")]
Clusters = Annotated[int, typer.Option(help="of federated learning with a head each")]
Neighbours = Annotated[
    int, typer.Option(help="of federated learning without heads; 0: all others")
]
Every = Annotated[str, typer.Option(help="time between two syncs of state")]
Latency = Annotated[str, typer.Option(help="of the network, one way")]
Flops = Annotated[int, typer.Option(help="10^12 a second, that a GPU reaches")]
Rtt = Annotated[str, typer.Option(help="round trips of regions, by commas")]
Price = Annotated[int, typer.Option(help="of a GB out of a data center, millionths of a USD")]
SkipUnknown = Annotated[
    bool, typer.Option("--skip-unknown", help="count what a trace has and none can model")
]
OpsRate = Annotated[int, typer.Option(help="10^12 a second of a GPU, for a trace's num_ops")]


class Layout(NamedTuple):
    """Degrees that were asked for; None leaves those of the preset."""

    gpus: Gpus = None
    tp: Tp = None
    pp: Pp = None
    ep: Ep = None
    zero: Zero = None
    seq: Seq = None
    micro_batch: MicroBatch = None
    n_micro: NMicro = None
    recompute: Recompute = None
    sequence_parallel: SequenceParallel = None
    dispatch_dtype: DispatchDtype = None


class Named(NamedTuple):
    """The model, as flags give it."""

    model: ModelName = "deepseek-v3"
    parameters: Parameters = None


class Routing(NamedTuple):
    """Tokens of one layer, as flags give them."""

    gate: Gate = None
    skew: Skew = DEFAULT_SKEW_MILLI
    trace: Trace = None
    tokens: Tokens = 0
    node: Node = 8
    bits: Bits = 0
    payload: Payload = 0


class Pushed(NamedTuple):
    """What is pushed and to whom, as flags give it."""

    size: Size = None
    regions: Regions = 4
    replicas: Replicas = None
    rate: Rate = "400Gbps"
    within: Within = "10s"
    rtt: Rtt = "20ms,60ms,100ms,150ms"
    price: Price = PRICE_MICRO


class Served(NamedTuple):
    """What other workloads need, as flags give it."""

    rounds: Rounds = 1
    clusters: Clusters = 4
    neighbours: Neighbours = 2
    every: Every = "10ms"
    latency: Latency = "5us"
    flops: Flops = 400


def ask_of(
    named: Named, layout: Layout, routing: Routing, pushed: Pushed, served: Served, seed: int
) -> WorkloadRequest:
    """Everything in its place.

    Raises:
        ConfigError: the first wrong value, by its name.
    """
    model = named.model
    shape, known = model_of(model, parse_count(named.parameters))
    n_replicas = DEFAULT_REPLICAS if pushed.replicas is None else pushed.replicas
    return WorkloadRequest(
        model=shape,
        weights=load_weights(Path(model), shape) if Path(model).is_dir() else None,
        degrees=degrees_of(known, layout),
        seed=seed,
        gate=gate_of(routing.gate),
        skew_milli=routing.skew,
        trace=routing.trace,
        n_ranks=layout.ep or layout.gpus or 0,
        tokens=within("tokens", routing.tokens, 0, 2**24),
        ranks_per_node=within("node", routing.node, 1, 2**16),
        bitstring_bits=routing.bits,
        payload_bytes=within("payload", routing.payload, 0, 2**20),
        n_bytes=_size(pushed.size),
        regions=within("regions", pushed.regions, 1, 2**16),
        replicas=within("replicas", n_replicas, 1, 2**20),
        rate_bps=parse_rate(pushed.rate, "rate"),
        within_ps=parse_duration(pushed.within, "within"),
        rounds=within("rounds", served.rounds, 1, 2**24),
        clusters=within("clusters", served.clusters, 1, 2**20),
        neighbours=within("neighbours", served.neighbours, 0, 2**20),
        every_ps=within("every", parse_duration(served.every, "every"), 1, MAX_TIME_PS),
        latency_ps=within("latency", parse_duration(served.latency, "latency"), 0, MAX_TIME_PS),
        flops_per_s=within("flops", served.flops, 1, 2**20) * TERA,
        rtts_ps=tuple(parse_duration(each, "rtt") for each in pushed.rtt.split(",")),
        price_micro=within("price", pushed.price, 0, 2**40),
    )


def _size(text: str | None) -> int:
    """Bytes that are pushed; 0, the model's own, where nothing is asked for."""
    if text is None:
        return 0
    n_bytes = parse_size(text, "size")
    if n_bytes == 0:
        raise ConfigError("size", text, "a byte or more")
    return n_bytes


def links_of(rate: str, latency: str) -> tuple[int, int]:
    """Bits per second and ps of latency."""
    return int(parse_rate(rate, "rate")), int(parse_duration(latency, "latency"))


def ops_of(ops_rate: int) -> int:
    """Operations per second of a GPU; 0: none given."""
    return within("ops-rate", ops_rate, 0, 2**20) * TERA


def model_of(text: str, parameters: int) -> tuple[Model, Degrees]:
    """A preset with its degrees, or a model of a file, or of a folder with a config.json.

    Tokens go to experts in fp8 where the weights of a file are in fp8.
    """
    if text.endswith(".json") or Path(text).is_dir():
        model = load_model(Path(text), parameters)
        sent: Dtype = "fp8" if model.dtype == "fp8" else "bf16"
        return model, Degrees(gpus=DEFAULT_GPUS, dispatch_dtype=sent)
    check_no_count(parameters)
    preset = preset_of(text)
    return preset.model, preset.degrees or Degrees(gpus=DEFAULT_GPUS)


def degrees_of(known: Degrees, asked: Layout) -> Degrees:
    """Degrees with what was asked for in place.

    Raises:
        ConfigError: one out of range, by its name.
    """
    if asked.dispatch_dtype is not None:
        dtype_of(asked.dispatch_dtype, "dispatch_dtype")
    changes = {key: value for key, value in asked._asdict().items() if value is not None}
    try:
        return msgspec.convert(msgspec.to_builtins(known) | changes, Degrees)
    except msgspec.ValidationError as err:
        text, _, where = str(err).partition(" - at `$.")
        field = where.rstrip("`")
        expected = text.removeprefix("Expected ").replace("`", "")
        raise ConfigError(field, changes.get(field), expected) from err


def gate_of(text: str | None) -> GateKind | None:
    """A gate by name.

    Raises:
        ConfigError: no such gate.
    """
    for gate in GATES:
        if text == gate:
            return gate
    if text is None:
        return None
    raise ConfigError("gate", text, ", ".join(GATES))


def within(field: str, value: int, least: int, most: int) -> int:
    """A number in a range.

    Raises:
        ConfigError: one outside.
    """
    if not least <= value <= most:
        raise ConfigError(field, value, f"{least}..{most}")
    return value
