"""Every number that a study can give: name, unit, which way is better, what it means.

``requirement`` is one of the five of draft-zhang-rtgwg-multicast-requirements-gaps-aidc,
section 3 (empty: a cost). Thresholds that make words of numbers stand in
``study/thresholds.py``.
"""

from typing import Literal, NamedTuple

Requirement = Literal[
    "", "interactivity", "reliability", "dynamics", "sparseness", "simplicity"
]
Better = Literal["less", "more", ""]


class Metric(NamedTuple):
    """One number. unit: empty for counts."""

    name: str
    unit: str
    better: Better
    requirement: Requirement
    meaning: str


CATALOG: tuple[Metric, ...] = (
    Metric("time_all_ps", "ps", "less", "", "until the last receiver has everything"),
    Metric("time_p50_ps", "ps", "less", "", "until half of the receivers have everything"),
    Metric("time_p99_ps", "ps", "less", "", "until 99 of 100 receivers have everything"),
    Metric("step_ps", "ps", "less", "", "one step: computing and waiting for the network"),
    Metric("utilisation_ppm", "ppm", "more", "", "share of the step in which a GPU computes"),
    Metric("idle_gpu_ps", "GPU ps", "less", "", "time that all GPUs together wait in a step"),
    Metric("source_bytes", "bytes", "less", "", "on the busiest link out of a source"),
    Metric("busiest_bytes", "bytes", "less", "", "on the busiest link of the fabric"),
    Metric("fabric_bytes", "bytes", "less", "", "on all links"),
    Metric("straggler_ps", "ps", "less", "", "between half of the receivers and the last"),
    Metric(
        "egress_micro_usd", "micro-USD", "less", "", "for bytes that leave, at a given price"
    ),
    Metric("energy_mj", "mJ", "less", "", "of all bytes on all links, at a given energy a bit"),
    Metric("idle_energy_mj", "mJ", "less", "", "of GPUs that wait, at a given power"),
    Metric("first_ps", "ps", "less", "", "until the last receiver has the first layer"),
    Metric("durable_ps", "ps", "less", "", "until all replicas have everything on disk"),
    Metric("saved_bytes", "bytes", "more", "", "on the busiest link, against the baseline"),
    Metric("egress_bytes", "bytes", "less", "", "that the source's site sends to its border"),
    Metric("wan_bytes", "bytes", "less", "", "on all lines between sites"),
    Metric("queue_bytes", "bytes", "less", "", "in the deepest queue"),
    Metric("feedback_pkts", "packets", "less", "interactivity", "that reach a source"),
    Metric(
        "feedback_per_kpkt",
        "packets",
        "less",
        "interactivity",
        "of feedback that reach the source, for 1,000 of data, repairs not counted",
    ),
    Metric(
        "feedback_ps",
        "ps",
        "less",
        "interactivity",
        "from the last receiver's last byte until the source knows that all have all",
    ),
    Metric(
        "reaction_ps",
        "ps",
        "less",
        "interactivity",
        "from a queue that marks until the source has the word that tells it to slow down",
    ),
    Metric(
        "goodput_bps",
        "bit/s",
        "more",
        "reliability",
        "payload over the time until the source knows that all have all",
    ),
    Metric(
        "goodput_ppm",
        "ppm",
        "more",
        "reliability",
        "goodput with the loss asked for, of that without; the median of the seeds",
    ),
    Metric("goodput_least_ppm", "ppm", "more", "reliability", "the same in the worst seed"),
    Metric("goodput_most_ppm", "ppm", "more", "reliability", "the same in the best seed"),
    Metric("drops", "packets", "less", "reliability", "lost on links and in queues"),
    Metric("repair_bytes", "bytes", "less", "reliability", "that sources sent again"),
    Metric(
        "healthy_repair_bytes",
        "bytes",
        "less",
        "reliability",
        "repairs on links below which no receiver lacked the packet",
    ),
    Metric(
        "healthy_repair_ppm",
        "ppm",
        "less",
        "reliability",
        "of data on all links, when one receiver's link loses as many as all links together",
    ),
    Metric(
        "detect_ps",
        "ps",
        "less",
        "reliability",
        "from a fault until it is noticed; given for BFD",
    ),
    Metric(
        "named_ps",
        "ps",
        "less",
        "reliability",
        "from a fault until the source's feedback has told it whom it cut off",
    ),
    Metric(
        "recover_ps",
        "ps",
        "less",
        "reliability",
        "time since detection in which somebody whom a fault cut off cannot be reached",
    ),
    Metric(
        "gap_receivers",
        "",
        "less",
        "reliability",
        "receivers that a fault and its mending made miss a packet",
    ),
    Metric("behind_receivers", "", "", "reliability", "receivers whose path held the fault"),
    Metric(
        "domain_ppm",
        "ppm",
        "less",
        "reliability",
        "receivers with a gap, of those behind the fault",
    ),
    Metric(
        "setup_ps",
        "ps",
        "less",
        "dynamics",
        "from the first member's wish until all members can be reached",
    ),
    Metric(
        "join_ps",
        "ps",
        "less",
        "dynamics",
        "from a member's wish until a packet of the source can reach it; the longest of some",
    ),
    Metric(
        "leave_ps",
        "ps",
        "less",
        "dynamics",
        "from a member's wish until none reaches it; the longest of some",
    ),
    Metric(
        "change_gap_ps",
        "ps",
        "less",
        "dynamics",
        "that a change adds where one follows the other, done as they come",
    ),
    Metric("change_msgs", "messages", "less", "dynamics", "of control, for one join or leave"),
    Metric(
        "change_writes", "", "less", "dynamics", "of forwarding tables, for one join or leave"
    ),
    Metric(
        "header_bytes",
        "bytes",
        "less",
        "sparseness",
        "that say who receives, in each packet",
    ),
    Metric(
        "header_ppm",
        "ppm",
        "less",
        "sparseness",
        "the same as a share of the payload of a packet",
    ),
    Metric(
        "far_header_ppm", "ppm", "less", "sparseness", "the same for members among 65,536 hosts"
    ),
    Metric(
        "extra_copies_ppm",
        "ppm",
        "less",
        "sparseness",
        "link crossings beyond those of the ideal tree: shortest paths, each link once",
    ),
    Metric(
        "far_copies_ppm", "ppm", "less", "sparseness", "the same for members among 65,536 hosts"
    ),
    Metric(
        "lost_saving_ppm",
        "ppm",
        "less",
        "sparseness",
        "of the link crossings that the ideal tree saves over copies by unicast",
    ),
    Metric(
        "far_lost_saving_ppm",
        "ppm",
        "less",
        "sparseness",
        "the same for members among 65,536 hosts",
    ),
    Metric(
        "idle_state_entries",
        "entries",
        "less",
        "sparseness",
        "for the group, in routers that lie on no path to a member",
    ),
    Metric(
        "idle_state_ppm",
        "ppm",
        "less",
        "sparseness",
        "the same as a share of all entries of the group",
    ),
    Metric("control_msgs", "messages", "less", "simplicity", "to set up one group"),
    Metric("message_kinds", "", "less", "simplicity", "of messages that a group needs"),
    Metric("state_entries", "entries", "less", "simplicity", "for one group, in all routers"),
    Metric(
        "most_entries", "entries", "less", "simplicity", "for one group, in the fullest router"
    ),
    Metric("state_kinds", "", "less", "simplicity", "of tables that routers keep for groups"),
    Metric(
        "lookups_per_pkt",
        "lookups",
        "less",
        "simplicity",
        "in tables of one router, for one packet, in the mean rounded up",
    ),
    Metric(
        "spread_ppm",
        "ppm",
        "less",
        "simplicity",
        "the 99th percentile over the median of the time of receivers, beyond 1",
    ),
)


def metric_of(name: str) -> Metric:
    """Row of a name; the name is ours, so a wrong one is a bug."""
    return {metric.name: metric for metric in CATALOG}[name]
