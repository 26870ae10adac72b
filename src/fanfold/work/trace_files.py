"""Forms of recorded traces: how each is read, and which files belong to one.

``form:path`` as text: chakra:FOLDER, chakra:FOLDER/PREFIX, goal:FILE.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from fanfold.extras import load
from fanfold.work.goal import load_goal
from fanfold.work.trace import Trace

TraceForm = Literal["chakra", "goal"]
FORMS: tuple[TraceForm, ...] = get_args(TraceForm)


def load_trace(
    form: TraceForm, path: Path, skip_unknown: bool = False, ops_per_s: int = 0
) -> Trace:
    """Trace of a form.

    Raises:
        ConfigError: what cannot be read, or not modelled, by rank and operation.
    """
    if form == "goal":
        return load_goal(path)
    chakra = _chakra()
    trace: Trace = chakra.load_chakra(path, chakra.Wish(skip_unknown, ops_per_s))
    return trace


def form_of(text: str) -> tuple[TraceForm, Path] | None:
    """Form and path of ``form:path``; None where it is something else."""
    for form in FORMS:
        if text.startswith(f"{form}:"):
            return form, Path(text.removeprefix(f"{form}:"))
    return None


def bundle_trace(form: TraceForm, path: Path, name: str) -> tuple[str, dict[str, Path]]:
    """The path that a copy beside a scenario has, and where each file of it is now.

    Raises:
        ConfigError: no such trace.
    """
    if form == "goal":
        return f"{name}.goal", {f"{name}.goal": path}
    chakra = _chakra()
    files = {f"{name}.{rank}.et": file for rank, file in enumerate(chakra.trace_files(path))}
    groups = chakra.group_file(path)
    return name, files | ({f"{name}.json": groups} if groups else {})


def _chakra() -> Any:
    """What reads Chakra's protobuf, which loads a library of its own."""
    load("google.protobuf", "study")
    return import_module("fanfold.work.chakra")
