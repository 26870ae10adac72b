"""Which sentences of a verdict speak of the point that the page shows."""

from collections.abc import Mapping

from fanfold.study.result import Study, Value


def split_verdict(study: Study, point: Mapping[str, Value]) -> tuple[list[str], list[str]]:
    """Sentences of a point, without its name, and those of all points; then the others.

    A sentence of one point starts with it, "gpus 8, loss 0: choose ...".
    """
    starts = {_start(row.point) for row in study.rows if row.point}
    own = _start(point)
    shown, others = [], []
    for line in study.verdict:
        start = next((s for s in starts if line.startswith(s)), "")
        if not start or start == own:
            shown.append(line.removeprefix(start))
        else:
            others.append(line)
    return shown, others


def _start(point: Mapping[str, Value]) -> str:
    return ", ".join(f"{key} {value}" for key, value in point.items()) + ": "
