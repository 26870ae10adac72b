"""Study: replicas that join within seconds, as an autoscaler starts them, and draw a model.

    copies   the source sends each joiner a copy of its own from its arrival on
    relay    joiners pass pieces on, in the order of arrival
    fan      the source sends pieces round and round while anybody lacks some; a joiner takes
             what comes by, and the set in each packet names those who lack its piece
    tree     the same along a tree that joiners are grafted to; they join first

The source is a host more than the GPUs. Times of a joiner count from its arrival.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.streams import stream
from fanfold.study.ask import Setting
from fanfold.study.fabrics import fat_tree_of
from fanfold.study.keys import Key
from fanfold.study.model_push import weights_of
from fanfold.study.phases import I64, Cast, Graph, Phase, Style
from fanfold.study.result import Default
from fanfold.work.push import draw_arrivals, send_ps

PIECES = 64
ROOM_PERCENT = 106
"""Of the time of a piece until the next one leaves: its headers, and feedback."""
KEYS = (
    Key("size", "size", "", "the weights as stored"),
    Key("first", "size", "", "the first layer: an even share of the layers"),
    Key("within", "duration", "2s", "in which all join (assumed)"),
)
METRICS = (
    "time_all_ps",
    "first_ps",
    "time_p50_ps",
    "straggler_ps",
    "idle_gpu_ps",
    "source_bytes",
    "busiest_bytes",
    "feedback_pkts",
    "setup_ps",
    "saved_bytes",
)


def graph(setting: Setting, style: Style) -> Graph:
    """One phase with arrivals.

    Raises:
        ConfigError: a first layer larger than the model.
    """
    n = setting.gpus
    n_bytes = setting.number("size") or weights_of(setting)
    first = setting.number("first") or max(n_bytes // setting.model.n_layers, 1)
    if not 1 <= first <= n_bytes:
        raise ConfigError("first", first, f"1..{n_bytes} bytes, the model")
    times = draw_arrivals(
        stream(setting.seed, "cold-start/arrivals"), n, setting.number("within")
    )
    hosts = tuple(range(1, n + 1))
    ready = np.concatenate([np.zeros(1, np.int64), times])
    if style in ("fan", "tree"):
        casts = _rounds(times, n_bytes, setting.number("rate"))
    elif style == "copies":
        casts = tuple(
            cast
            for host, at in zip(hosts, times.tolist(), strict=True)
            for cast in (
                Cast(0, (host,), first, at),
                Cast(0, (host,), n_bytes - first, at + 1, first),
            )
            if cast.n_bytes
        )
    else:
        casts = (Cast(0, hosts, n_bytes),)
    draw = Phase("draw", casts=casts, ready_ps=ready, first_bytes=first, most_pieces=PIECES)
    return Graph(
        topology=setting.word("topology") or fat_tree_of(n + 1, setting.number("rate")),
        n_hosts=n + 1,
        gpus=n,
        phases=(draw,),
        defaults=(
            Default("bytes", f"{n_bytes:,}, {first:,} of them first", "keys size, first"),
            Default("pieces", str(PIECES), "of a round, and of a pipeline of relays"),
            Default("arrivals", "each alike in the time, the first at 0", "drawn by the seed"),
        ),
    )


def _rounds(times: I64, n_bytes: int, rate_bps: int) -> tuple[Cast, ...]:
    """Pieces round and round, to those who came before and have not had them."""
    bounds = np.arange(PIECES + 1) * n_bytes // PIECES
    each_ps = send_ps(-(-n_bytes // PIECES), rate_bps) * ROOM_PERCENT // 100
    begins = -(-times // each_ps)
    casts = []
    for turn in range(int(begins.max()) + PIECES):
        piece = turn % PIECES
        lacks = (begins <= turn) & (turn < begins + PIECES)
        size = int(bounds[piece + 1] - bounds[piece])
        if lacks.any() and size:
            hosts = tuple((np.nonzero(lacks)[0] + 1).tolist())
            casts.append(Cast(0, hosts, size, turn * each_ps, int(bounds[piece])))
    return tuple(casts)
