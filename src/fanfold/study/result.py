"""What a study found, as one value: its table, its report and its JSON all come from here.

A study runs each scheme at each point of its sweep. What is measured is an integer, named by a
row of ``study/metric_catalog.py``, which holds its unit and meaning.
"""

import msgspec

Value = int | str


class Default(msgspec.Struct, frozen=True):
    """One number or choice that nobody gave: name, value with unit, where it is from."""

    name: str
    value: str
    source: str


class Row(msgspec.Struct, frozen=True):
    """One scheme at one point.

    point: value of each key of the sweep. run_id: of a kept run, empty where none was made.
    fidelity: packet, train, flow, or computed where no simulator ran. refusal: why the scheme
    cannot do it, empty when it can; then values is empty. values: by name of a metric. note:
    what was done otherwise than the name says, or did not end. unranked: what was asked for and
    its rung has not; beside rows that have it, it is no choice.
    """

    scheme: str
    point: dict[str, Value]
    fidelity: str = ""
    run_id: str = ""
    refusal: str = ""
    values: dict[str, int] = msgspec.field(default_factory=dict)
    note: str = ""
    unranked: str = ""


class Study(msgspec.Struct, frozen=True):
    """One study.

    kind: row of ``study/catalog.py``. keys: of the sweep, in order; empty for one point.
    metrics: names of those that the table shows, the one that decides first. baseline: the
    scheme that ratios refer to. verdict: sentences, what to choose and by how much. defaults:
    everything that was assumed. command: prints the same again.
    """

    kind: str
    title: str
    command: str
    seed: int
    version: str
    model: str
    topology: str
    gpus: int
    keys: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: str
    rows: tuple[Row, ...]
    verdict: tuple[str, ...]
    defaults: tuple[Default, ...]
