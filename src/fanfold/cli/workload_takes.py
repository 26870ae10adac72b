"""Which flags count for which workload: any other is refused, as it would change nothing.

``--model``, ``--parameters``, ``--seed`` and ``--json`` go with every workload; only some draw.
Flags that shape the layout of GPUs go together, as they must fit each other.
"""

import typer

from fanfold.cli.verb import given, refuse, refuse_but
from fanfold.errors import ConfigError

_ALWAYS = ("name", "model", "parameters", "seed", "as_json")
_TRACE = ("rate", "latency", "skip_unknown", "ops_rate")
_LAYOUT = ("gpus", "tp", "pp", "ep")
_STEP = (
    *(*_LAYOUT, "zero", "seq", "micro_batch", "n_micro"),
    *("recompute", "sequence_parallel", "dispatch_dtype"),
)
TAKES: dict[str, tuple[str, ...]] = {
    "parameters": (),
    "training": _STEP,
    "moe-dispatch": (
        *(*_LAYOUT, "dispatch_dtype", "gate", "skew", "trace", "tokens"),
        *("node", "bits", "payload"),
    ),
    "model-push": ("size", "regions", "replicas"),
    "cold-start": ("size", "replicas", "rate", "within"),
    "sizes": (),
    "layers": ("rate",),
    "budgets": (
        *(*_LAYOUT, "zero", "seq", "micro_batch", "sequence_parallel"),
        *("rate", "latency"),
    ),
    "bursts": (*_STEP, "rate", "flops"),
    "checkpoint": ("size", *_LAYOUT, "replicas", "rate"),
    "inter-dc": ("size", "regions", "replicas", "rate", "rtt", "price"),
    "federated": ("size", "replicas", "rounds", "clusters", "neighbours"),
    "incast": ("size", "seq", "replicas", "rate", "latency"),
    "state-sync": ("size", "replicas", "every"),
    "roles": (*_LAYOUT, "seq", "micro_batch", "n_micro", "replicas"),
}


def check_listing(ctx: typer.Context) -> None:
    """Without a name there is a list, and nothing to count."""
    refuse_but(ctx, ("name", "as_json"), "none without a NAME, which it is about")


def check_of_trace(ctx: typer.Context) -> None:
    """A recorded trace has its own shape."""
    refuse_but(ctx, ("name", "as_json", *_TRACE), "none for a trace, which has its own shape")


def check_of(ctx: typer.Context, name: str, gate: str | None) -> None:
    """Flags of a workload by name.

    Raises:
        ConfigError: the first that would change nothing.
    """
    for_a_trace = "none but for a trace, chakra:FOLDER or goal:FILE"
    refuse(ctx, ("skip_unknown", "ops_rate"), for_a_trace)
    takes = TAKES[name]
    refuse_but(
        ctx,
        (*_ALWAYS, *takes),
        f"none but {', '.join(map(_flag, ('model', *takes)))} with {name}",
    )
    if "trace" in given(ctx):
        beside = "none beside a trace, which takes its place"
        refuse(ctx, ("gate", "skew", "tokens"), beside)
    if "skew" in given(ctx) and gate != "zipf":
        raise ConfigError("skew", ctx.params["skew"], "none without --gate zipf")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
