"""Arguments of a comparison, called as the flags of its command are, as a scenario."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fanfold.api.ran_with import with_default_rate
from fanfold.errors import ConfigError
from fanfold.scenario.scenario import Scenario, load_scenario, read_scenario
from fanfold.units import PPB_ONE, parse_probability, parse_size
from fanfold.work.trace_files import form_of

WORKLOAD = "KIND:SIZE, such as broadcast:256MiB, or chakra:FOLDER, goal:FILE"
TERA = 10**12
SOURCE, NEAREST = "source", "nearest"
MAX_OPS_RATE = 10**6
_FLAG_OF = {
    "topology": "--topology",
    "schemes": "--schemes",
    "fidelity": "--fidelity",
    "seed": "--seed",
    "workload.kind": "--workload",
    "workload.n_bytes": "--workload",
    "workload.ranks": "--gpus",
    "workload.order": "--order",
    "trace.path": "--workload",
    "trace.order": "--order",
    "trace.ops_per_s": "--ops-rate",
    "settings.transport": "--transport",
    "settings.planes": "--planes",
    "settings.routing": "--routing",
    "settings.feedback": "--feedback",
    "settings.tree_start": "--tree-start",
    "settings.tree_repair": "--tree-repair",
    "settings.sum_numbers": "--sum-numbers",
}


def scenario_of(file: Path | None, flags: Mapping[str, str | int]) -> Scenario:
    """Scenario of a file, or of flags; both together are refused.

    Args:
        flags: those that were given, by name.

    Raises:
        ConfigError: a wrong file or flag.
    """
    if file is not None:
        for name, value in flags.items():
            raise ConfigError(name, value, "no such flag beside a scenario file")
        return load_scenario(file)
    for name, allowed in (("--topology", "such as fat-tree:k=8"), ("--workload", WORKLOAD)):
        if name not in flags:
            raise ConfigError(name, "nothing", f"{allowed}; or a scenario file")
    try:
        return read_scenario(_table(flags))
    except ConfigError as error:
        raise by_flag(error, flags) from error


def by_flag(error: ConfigError, given: Collection[str]) -> ConfigError:
    """The same error, with the flag in the place of the scenario's key.

    Args:
        given: flags that were given: no other is blamed, the ranks are then the topology's.
    """
    field = _FLAG_OF.get(error.field, error.field)
    if field == "--gpus" and field not in given:
        field = "--topology"
    elif field.startswith("--") and field not in given:
        field = error.field
    return ConfigError(field, error.got, error.allowed)


def _table(flags: Mapping[str, str | int]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    key, workload = _workload(flags)
    table: dict[str, Any] = {
        "topology": with_default_rate(str(flags["--topology"])),
        key: workload,
        "settings": settings,
    }
    for flag, where, key in (
        ("--gpus", workload, "ranks"),
        ("--order", workload, "order"),
        ("--seed", table, "seed"),
        ("--fidelity", table, "fidelity"),
        ("--transport", settings, "transport"),
        ("--planes", settings, "planes"),
        ("--routing", settings, "routing"),
        ("--feedback", settings, "feedback"),
        ("--tree-start", settings, "tree_start"),
        ("--tree-repair", settings, "tree_repair"),
        ("--sum-numbers", settings, "sum_numbers"),
    ):
        if flag in flags:
            where[key] = flags[flag]
    if "--schemes" in flags:
        table["schemes"] = [name.strip() for name in str(flags["--schemes"]).split(",")]
    if "--loss" in flags:
        settings["loss_ppb"] = _loss(str(flags["--loss"]))
    if "--repair" in flags:
        if flags["--repair"] not in (SOURCE, NEAREST):
            raise ConfigError("--repair", flags["--repair"], f"{SOURCE} or {NEAREST}")
        if flags["--repair"] == SOURCE:
            settings["cache_bytes"] = 0
    return table


def _workload(flags: Mapping[str, str | int]) -> tuple[str, dict[str, Any]]:
    """Key in a scenario, and its table."""
    text = str(flags["--workload"])
    if (found := form_of(text)) is not None:
        if "--gpus" in flags:
            raise ConfigError("--gpus", flags["--gpus"], "none beside a trace, which has ranks")
        trace: dict[str, Any] = {"form": found[0], "path": str(found[1])}
        if "--skip-unknown" in flags:
            trace["skip_unknown"] = bool(flags["--skip-unknown"])
        if "--ops-rate" in flags:
            trace["ops_per_s"] = _ops_rate(int(flags["--ops-rate"])) * TERA
        return "trace", trace
    for flag in ("--skip-unknown", "--ops-rate"):
        if flag in flags:
            raise ConfigError(flag, flags[flag], "a trace as --workload")
    kind, has_size, size = text.partition(":")
    if not has_size:
        raise ConfigError("--workload", kind, WORKLOAD)
    n_bytes = int(parse_size(size, "--workload"))
    return "workload", {"kind": kind.replace("-", "_"), "n_bytes": n_bytes}


def _ops_rate(tera: int) -> int:
    if not 0 <= tera <= MAX_OPS_RATE:
        raise ConfigError("--ops-rate", tera, f"0..{MAX_OPS_RATE}")
    return tera


def _loss(text: str) -> int:
    loss = parse_probability(text, "--loss")
    if loss == PPB_ONE:
        raise ConfigError("--loss", text, "less than one, or nothing ever arrives")
    return loss
