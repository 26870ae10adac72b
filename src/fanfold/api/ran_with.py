"""What a comparison ran with where nobody said it: one line, for people and for programs."""

from fanfold.scenario.scenario import Scenario
from fanfold.scenario.settings import Settings
from fanfold.topo.nets import with_rate
from fanfold.units import PPB_ONE, format_duration, format_size

RATE = "400Gbps"
"""Of links that a flag's topology gives no rate: ports of today's data centers for AI."""


def with_default_rate(topology: str) -> str:
    """The topology of a flag, its rate spelled out."""
    return with_rate(topology, RATE)


def ran_with(scenario: Scenario) -> str:
    """Numbers of a run that decide, given or not."""
    settings = scenario.settings
    return "; ".join(
        (
            f"ran with: {scenario.topology}",
            f"packets of {settings.payload_bytes} + {settings.header_bytes} bytes",
            f"transport {settings.transport}, {_window(settings)}, paths by {settings.routing}",
            _queues(settings),
            f"loss {settings.loss_ppb * 1_000_000 / int(PPB_ONE):g} ppm",
            f"feedback {settings.feedback}, trees: {settings.tree_start}",
            f"fidelity {scenario.fidelity}, seed {scenario.seed}",
        )
    )


def _window(settings: Settings) -> str:
    n = settings.window_pkts
    return f"window of {n} packets" if n else "no window"


def _queues(settings: Settings) -> str:
    depth = format_size(settings.queue_bytes) if settings.queue_bytes else "no limit"
    mark = (
        f"marks above {format_size(settings.ecn_bytes)}" if settings.ecn_bytes else "no marks"
    )
    pause, resume = settings.pfc_pkts
    stop = f"pauses at {pause} and {resume} packets" if pause else "no pauses"
    late = format_duration(settings.switch_ps) if settings.switch_ps else "0"
    return f"queues: {depth}, {mark}, {stop}, {late} in a switch"
