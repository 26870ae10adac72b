"""One scenario: a fabric, what is to be moved over it, by which schemes, and how exactly.

    name, topology, schemes, fidelity, seed, matrix
    [workload]              kind, n_bytes, ranks, order
    [trace]                 form, path, order, skip_unknown, ops_per_s: instead of a workload
    [settings]              the timing model, scenario/settings.py
    [[settings.failures]]   at_ps, fail or heal; or a, b, up
    [trees]                 timers of tree protocols, trees/settings.py

The same value stands in a file, behind the flags of `fanfold compare` and in every results
folder. Its digest names a run.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Meta

from fanfold.errors import ConfigError
from fanfold.input_file import read_input
from fanfold.results.store import DIGESTS, SCENARIO
from fanfold.scenario.failures import check_failures
from fanfold.scenario.settings import Settings
from fanfold.scenario.width import AUTO, WIDTHS
from fanfold.toml_table import read_table, write_table
from fanfold.topo.nets import IMPORT, file_of
from fanfold.trees.settings import TreeSettings
from fanfold.units import MAX_SEED
from fanfold.work.collective import Kind
from fanfold.work.trace_files import TraceForm, bundle_trace

Fidelity = Literal["auto", "packet", "train", "flow"]
"""packet: exact. train: runs of packets as one record. flow: shares of links, no packets."""
Order = Literal["packed", "spread", "shuffled"]
"""packed: the first hosts in order. spread: evenly over all hosts. shuffled: drawn by seed."""
MAX_BYTES = 2**55
ALL = "all"
MATRIX_SCHEME = "matrix"
"""The one scheme of a scenario with a matrix file: its messages, as they stand there."""
ID_DIGITS = 16
_MATRIX, _TRACE = "matrix.cm", "trace"
"""Names of a matrix and a trace beside a scenario that is kept; an imported net has its own."""
_OF_A_RUN = (DIGESTS, SCENARIO, _MATRIX)


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A collective operation: how many ranks, which hosts they are, how many bytes.

    n_bytes: as work/collective.py counts them. Rank 0 is the root.
    """

    kind: Kind
    n_bytes: Annotated[int, Meta(ge=1, le=MAX_BYTES)]
    ranks: Annotated[int, Meta(ge=2, le=2**20)] | Literal["all"] = "all"
    order: Order = "packed"


class TraceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recorded program of all ranks.

    path: chakra: a folder of prefix.0.et and so on, or folder/prefix; goal: a text file.
    skip_unknown: count what cannot be modelled instead of refusing it. ops_per_s: of a GPU,
    for computations of which the trace knows no time.
    """

    form: TraceForm
    path: str
    order: Order = "packed"
    skip_unknown: bool = False
    ops_per_s: Annotated[int, Meta(ge=0, le=10**18)] = 0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run for each scheme. A workload, a trace, or a matrix: a file of messages."""

    topology: str
    name: str = ""
    schemes: tuple[str, ...] = (ALL,)
    fidelity: Fidelity = "auto"
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)] = 1
    matrix: str = ""
    workload: Workload | None = None
    trace: TraceFile | None = None
    settings: Settings = Settings()
    trees: TreeSettings = TreeSettings()


def load_scenario(path: Path) -> Scenario:
    """Scenario of a TOML file, checked; files that it names are looked for beside it.

    Raises:
        ConfigError: no such file, no TOML, or the first fault, as "FILE: workload.kind".
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise ConfigError(str(path), err.strerror, "a scenario file that can be read") from err
    except ValueError as err:  # not TOML, with its line; or not UTF-8
        raise ConfigError(str(path), str(err), "TOML") from err
    scenario = read_scenario(table, f"{path}: ")
    changes: dict[str, Any] = {}
    if scenario.matrix:
        changes["matrix"] = str(path.parent / scenario.matrix)
    if scenario.trace is not None:
        at = str(path.parent / scenario.trace.path)
        changes["trace"] = msgspec.structs.replace(scenario.trace, path=at)
    if (imported := file_of(scenario.topology)) is not None:
        changes["topology"] = f"{IMPORT}:{path.parent / imported[0]}{imported[1]}"
    return msgspec.structs.replace(scenario, **changes)


def read_scenario(table: dict[str, Any], prefix: str = "") -> Scenario:
    """Scenario of a parsed table, checked."""
    scenario = read_table(Scenario, table, prefix)
    check_scenario(scenario, prefix)
    return scenario


def save_scenario(scenario: Scenario, path: Path) -> None:
    """Write the file that ``load_scenario`` reads back as an equal scenario."""
    path.write_text(write_table(scenario), encoding="utf-8")


def check_scenario(scenario: Scenario, prefix: str = "") -> None:
    """What no single field shows."""
    if not scenario.topology:
        raise ConfigError(f"{prefix}topology", "", "a topology, such as fat-tree:k=8")
    given = [scenario.workload is not None, scenario.trace is not None, bool(scenario.matrix)]
    if sum(given) != 1:
        got = "both" if any(given) else "neither"
        raise ConfigError(f"{prefix}workload", got, "one of [workload], [trace], a matrix file")
    if not scenario.schemes or len(set(scenario.schemes)) < len(scenario.schemes):
        allowed = '"all", or names of schemes, each once'
        raise ConfigError(f"{prefix}schemes", list(scenario.schemes), allowed)
    if scenario.matrix and scenario.schemes != (ALL,):
        raise ConfigError(f"{prefix}schemes", list(scenario.schemes), "none beside a matrix")
    _check_settings(scenario.settings, f"{prefix}settings.")


class Bundle(NamedTuple):
    """A scenario of one scheme, and the files that it names, by the names that it has for them.

    Saved side by side they load again anywhere.
    """

    scenario: Scenario
    files: dict[str, bytes]


def bundle(scenario: Scenario, scheme: str) -> Bundle:
    """Everything that can change a row of one run: no name, no other scheme, no path.

    Raises:
        ConfigError: a file that cannot be read.
    """
    files: dict[str, bytes] = {}
    changes: dict[str, Any] = {}
    if scenario.matrix:
        changes["matrix"] = _MATRIX
        files[_MATRIX] = read_input(Path(scenario.matrix))
    if scenario.trace is not None:
        name, held = bundle_trace(scenario.trace.form, Path(scenario.trace.path), _TRACE)
        changes["trace"] = msgspec.structs.replace(scenario.trace, path=name)
        files |= {file: read_input(at) for file, at in held.items()}
    if (imported := file_of(scenario.topology)) is not None:
        path, tail = imported
        name = _kept_name(path.name)
        changes["topology"] = f"{IMPORT}:{name}{tail}"
        files[name] = read_input(path)
    schemes = (ALL,) if scenario.matrix else (scheme,)
    alone = msgspec.structs.replace(scenario, name="", schemes=schemes, **changes)
    return Bundle(alone, files)


def _kept_name(name: str) -> str:
    """The name of a net's file beside a run: its own, unless that is one of the run's files."""
    plain = re.sub(r"[^\w.-]", "_", name)
    is_taken = plain in _OF_A_RUN or plain.startswith(_TRACE) or plain.endswith(".parquet")
    return f"net-{plain}" if is_taken else plain


def run_id(scenario: Scenario, scheme: str, version: str) -> str:
    """Digest that names one run: everything that can change a row of its results."""
    alone, files = bundle(scenario, scheme)
    digest = blake3(msgspec.json.encode(alone, order="deterministic"))
    for name in sorted(files):
        digest.update(f"\n{name} {blake3(files[name]).hexdigest()}".encode())
    digest.update(f"\n{version}".encode())
    return digest.hexdigest()[:ID_DIGITS]


def schema_text() -> str:
    """The published JSON Schema of a scenario file."""
    schema = msgspec.json.schema(Scenario)
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _check_settings(settings: Settings, prefix: str) -> None:
    if settings.bitstring_bits not in (AUTO, *WIDTHS):
        allowed = ", ".join(map(str, (AUTO, *WIDTHS)))
        raise ConfigError(f"{prefix}bitstring_bits", settings.bitstring_bits, allowed)
    if not re.fullmatch(r"(auto|\d{1,3}(,\d{1,3})*)?", settings.planes):
        allowed = "auto, or numbers with commas between, such as 0,1"
        raise ConfigError(f"{prefix}planes", settings.planes, allowed)
    check_failures(settings, prefix)
    pause, resume = settings.pfc_pkts
    if resume > pause:
        raise ConfigError(f"{prefix}pfc_pkts", [pause, resume], "pause above, resume below it")
