"""Each direction of a link that a push went over: what was predicted, and what was counted."""

from fanfold.core.striped import StripedSender
from fanfold.push.counted import Counted
from fanfold.push.result import LinkResult
from fanfold.push.sender_role import SenderRole
from fanfold.topo.fabric import Fabric
from fanfold.topo.predict import predict_links


def link_results(
    fabric: Fabric, source: str, role: SenderRole, told: Counted, flow: int
) -> list[LinkResult]:
    """Rows of a push's result; predicted of net, manifest and BIFT, counted by sending ends.

    Args:
        flow: of its data.
    """
    fan, head_bytes = role.machine.data_fan, role.outbox.head_bytes
    plan = fan.plan if isinstance(fan, StripedSender) else b""
    sent = [
        (frozenset(_names(fabric, bits)), n, n_bytes, entropy)
        for plane, entropy in enumerate(role.outbox.entropies)
        for bits, (n, n_bytes) in role.machine.expected.copies(head_bytes, plan, plane).items()
    ]
    predicted = predict_links(fabric, source, sent)
    counted = told.links(fabric.by_name[source].bfr_id, flow)
    rows = []
    for src, dst in sorted(predicted.keys() | counted.keys()):
        counts = counted.get((src, dst), {})
        data, repair = counts.get("data", (0, 0)), counts.get("repair", (0, 0))
        packets, n_bytes = predicted.get((src, dst), (0, 0))
        rows.append(
            LinkResult(
                src=src,
                dst=dst,
                predicted_packets=packets,
                predicted_bytes=n_bytes,
                packets=data[0],
                bytes=data[1],
                repair_packets=repair[0],
                repair_bytes=repair[1],
                feedback_packets=counts.get("feedback", (0, 0))[0],
                counted=src not in told.unheard,
            )
        )
    return rows


def _names(fabric: Fabric, bits: int) -> list[str]:
    return [n.name for i, n in fabric.by_bfr_id.items() if bits >> (i - 1) & 1]
