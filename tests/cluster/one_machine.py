"""A Slurm and a Dask of one machine, from what Debian and pip install, each in a folder."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

CONF = """
ClusterName=fanfold
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket
SlurmctldPort={ctld}
SlurmdPort={slurmd}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/ctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/ctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
PATIENCE_S = 30


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def lacking():
    """Commands that are not here."""
    return [
        name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)
    ]


@contextmanager
def slurm(at, cpus):
    """A controller and one node, of their own key; the environment that reaches them."""
    for name in ("state", "spool"):
        (at / name).mkdir(parents=True)
    at.chmod(0o755)
    key = at / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host = socket.gethostname().split(".")[0]
    conf = at / "slurm.conf"
    ports = {"ctld": free_port(), "slurmd": free_port()}
    conf.write_text(CONF.format(at=at, host=host, cpus=cpus, **ports))
    env = os.environ | {"SLURM_CONF": str(conf)}
    munge = ["munged", "--foreground", "--force", f"--key-file={key}"]
    munge += [f"--socket={at}/munge.socket", f"--pid-file={at}/munged.pid"]
    munge += [f"--log-file={at}/munged.log", f"--seed-file={at}/munged.seed"]
    ran = []
    try:
        for argv in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", host]):
            with (at / f"{argv[0]}.out").open("w") as log:
                ran.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log))
            wait_for((at / "munge.socket").exists, "munged", at)
        wait_for(lambda: state_of(env) in ("idle", "mixed"), "slurmd", at)
        yield env
    finally:
        for process in reversed(ran):
            process.terminate()
            process.wait(10)


def state_of(env):
    told = subprocess.run(
        ["sinfo", "-h", "-o", "%t"], env=env, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def wait_for(is_so, what, at):
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            logs = "\n".join(p.read_text()[-1500:] for p in at.glob("*.log"))
            raise SystemExit(f"{what} does not come up within {PATIENCE_S} s:\n{logs}")
        time.sleep(0.1)


@contextmanager
def dask(at, n_workers):
    """A scheduler and workers with a nanny each, which starts a worker that died anew."""
    at.mkdir(parents=True)
    port = free_port()
    base = [str(Path(sys.executable).with_name("dask")), "scheduler"]
    ran = []
    try:
        for argv in (
            [*base, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
            [
                *(base[0], "worker", f"tcp://127.0.0.1:{port}", "--nworkers", str(n_workers)),
                *("--nthreads", "1", "--no-dashboard", "--local-directory", str(at / "w")),
            ],
        ):
            with (at / f"{argv[1]}.log").open("w") as log:
                ran.append(subprocess.Popen(argv, stdout=log, stderr=log, cwd=at))
        yield f"dask://127.0.0.1:{port}"
    finally:
        for process in reversed(ran):
            process.terminate()
            process.wait(20)
