"""The verbs: names and what help says of each, without what they import.

A command line imports the module of its own verb and of no other. A new verb is a file of its
name and a row here.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """A name as it is typed, and the first line of its help; a test holds both equal."""

    name: str
    help: str

    @property
    def module(self) -> str:
        """Where it lies; its function has the same name, a group of verbs is ``app``."""
        return f"fanfold.cli.{self.name.replace('-', '_')}"


VERBS: tuple[Verb, ...] = (
    Verb(
        "demo",
        "Push a model to eight hosts through software BFRs, and show what crossed each link.",
    ),
    Verb(
        "push",
        "Send PATH to many hosts with one copy on each link; verified at every receiver.",
    ),
    Verb("receive", "Receive pushes into a folder until interrupted."),
    Verb("keys", "Keys of nodes: who signs pushes, and whom receivers trust."),
    Verb("fabric", "A fabric of several machines, with its keys."),
    Verb("bfr", "Forward and fold until interrupted."),
    Verb("lab", "Node processes of a fabric on this machine."),
    Verb(
        "top", "Show links, rates, fans, folds and failures of a lab or fabric as they happen."
    ),
    Verb(
        "clean",
        "Remove the halves that broken pushes left to resume from; never one that is open.",
    ),
    Verb(
        "bitstring",
        "Show the BIER headers that reach BFR-ids, or the BFR-ids of a BitString.",
    ),
    Verb("decode", "Show the fields of packets, BFR-ids too; exit 2 if a layer is refused."),
    Verb("dissector", "Print the path of the Lua dissector, for tshark -X lua_script:PATH."),
    Verb("topo", "Describe and draw a topology; without a name, list what there is."),
    Verb(
        "trees", "Build a tree by its protocol's own messages; without a name, list protocols."
    ),
    Verb(
        "encodings",
        "Name receivers by every encoding, send the packets hop by hop, count; or list them.",
    ),
    Verb("compare", "Compare schemes: by a scenario file, or by a topology and a workload."),
    Verb(
        "peers",
        "Send FILE by fanfold and by other tools over the same shaped links; needs root.",
    ),
    Verb("explain", "Make a run again and follow one packet, its copies and what answers it."),
    Verb(
        "failures",
        "Fail a link, a spine and a leaf in mid-transfer: detection, gap and losses by scheme.",
    ),
    Verb("gap", "Five requirements by scheme: words, and the measured numbers that make them."),
    Verb(
        "instances",
        "Serve sessions of several sites by each policy: first token, contexts moved, incast.",
    ),
    Verb(
        "litmus", "Which orders of memory each class of delivery forbids, seen in runs; costs."
    ),
    Verb(
        "planes",
        "Steps and fans of GPUs over planes, per flow and per packet, whole and with failures.",
    ),
    Verb(
        "reduce-bench",
        "Time collectives on a running lab, one process a rank; exit 4 when a value is wrong.",
    ),
    Verb(
        "report",
        "Write one self-contained HTML page of a study or a comparison, and its figures.",
    ),
    Verb("sim-bench", "Hops a second on S1a, S1b, S3 and S4, and beside a bare heap loop."),
    Verb("study", "Study a workload: every scheme on one fabric, costs, and what to choose."),
    Verb("vat", "Lay aggregation trees over a topology, or check those of a file."),
    Verb(
        "workload",
        "Print what a workload moves; without a name, list workloads and models.",
    ),
)
"""In the order of the help."""
