"""A broadcast by Debian's Open MPI over TCP: a pipeline along all hosts.

mpirun starts its daemons by an agent, in place of ssh, that enters the namespace of an address,
with a host name of its own.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from fanfold.peers.ground import SENDER, UPLINK
from fanfold.peers.transfer import Peer, Transfer

PIPELINE, SEGMENT = "3", 128 << 10
"""The algorithm of coll_tuned that is fastest for long messages, and bytes of its pieces."""
AGENT = """#!/bin/sh
case $1 in
{cases}
*) echo "no host $1" >&2; exit 1;;
esac
shift
exec ip netns exec "$space" unshare --uts sh -c "hostname $name; exec sh -c '$*'"
"""
_FAILED = re.compile(
    r"exited on signal|lost|abort|not responding|terminat|fail|peer host:", re.IGNORECASE
)


class OpenMpi(Peer):
    """One process a host; the whole command is mpirun."""

    name = "openmpi"
    packages: ClassVar = {"openmpi-bin": "mpirun"}

    def receive(self, t: Transfer) -> None:
        """Ranks are started by the sender's command; here only the agent is written."""
        hosts = (SENDER, *t.receivers)
        rows = ((t.ground.address(h), t.ground.space(h), h) for h in hosts)
        cases = "\n".join(f"{a}) space={space} name={h};;" for a, space, h in rows)
        agent = t.folder / "agent"
        agent.write_text(AGENT.format(cases=cases))
        agent.chmod(0o700)
        t.commands["receiver"] = ["orted", "of mpirun"]

    def send(self, t: Transfer) -> subprocess.Popen[bytes]:
        """Settings by name; the tuned module's own choice is eight times slower."""
        settings = {
            "plm_rsh_agent": str(t.folder / "agent"),
            "plm_rsh_no_tree_spawn": "1",
            "orte_leave_session_attached": "1",
            "pml": "ob1",
            "btl": "tcp,self",
            "btl_tcp_if_include": UPLINK,
            "oob_tcp_if_include": UPLINK,
            "coll_tuned_use_dynamic_rules": "1",
            "coll_tuned_bcast_algorithm": PIPELINE,
            "coll_tuned_bcast_algorithm_segmentsize": str(SEGMENT),
            "mpi_yield_when_idle": "1",
        }
        hosts = [t.ground.address(host) for host in (SENDER, *t.receivers)]
        words = ["mpirun", "--allow-run-as-root", "-n", str(len(hosts))]
        words += ["--host", ",".join(hosts), "--map-by", "node", "--bind-to", "none"]
        words += [word for name, value in settings.items() for word in ("--mca", name, value)]
        folders = [str(t.into(host)) for host in t.receivers]
        program = [
            sys.executable,
            "-IS",
            str(Path(__file__).with_name("mpi_end.py")),
            *folders,
            str(t.file),
        ]
        t.commands["sender"] = [*words, *program]
        own = f'hostname {SENDER}; exec "$@"'
        inside = ["unshare", "--uts", "sh", "-c", own, SENDER, *words, *program]
        return t.start("sender", SENDER, inside, TMPDIR=str(t.folder))

    def dead(self, t: Transfer, said: str) -> set[str]:
        """Hosts in lines of mpirun that speak of an end."""
        lines = [line for line in said.splitlines() if _FAILED.search(line)]
        text = " ".join(lines)
        return {
            host
            for host in t.receivers
            if re.search(rf"\b({host}|{re.escape(t.ground.address(host))})\b", text)
        }
