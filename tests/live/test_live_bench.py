"""`fanfold reduce-bench` that is stopped: no rank's process stays."""

import signal
from pathlib import Path

import pytest
from live_site import LiveLab, Site, finish, is_running, wait_for

pytestmark = pytest.mark.live
LONG = ("--begin", "1MiB", "--end", "64MiB", "--rounds", 1000, "--ranks", 2)


def below(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("sign", "code"), [(signal.SIGTERM, -15), (signal.SIGKILL, -9), (signal.SIGINT, 130)]
)
def test_ranks_end_with_the_command_that_started_them(
    sign: signal.Signals, code: int, site: Site
) -> None:
    lab = LiveLab(site, f"bench{sign.value}", "--hosts", 2, "--leaves", 1, "--spines", 1)
    try:
        bench = site.start("reduce-bench", "--lab", lab.name, *LONG)
        wait_for(lambda: len(below(bench.pid)) == 2, "two ranks", 60)
        ranks = below(bench.pid)
        bench.send_signal(sign)  # to this process alone
        assert finish(bench, 30)[0] == code
        wait_for(lambda: not any(map(is_running, ranks)), "the end of both ranks", 5)
    finally:
        lab.down()
