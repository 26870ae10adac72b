"""Threads that move packets are batch threads, unless somebody chose another policy."""

import os
import threading

from fanfold.live.batch import take_turns
from fanfold.live.worker import Worker


def policy_in_a_thread(first: int) -> int:
    found: list[int] = []

    def look() -> None:
        os.sched_setscheduler(0, first, os.sched_param(0))
        take_turns()
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_takes_turns_and_the_program_keeps_its_policy() -> None:
    before = os.sched_getscheduler(0)
    assert policy_in_a_thread(os.SCHED_OTHER) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == before


def test_a_policy_that_was_chosen_stays() -> None:
    assert policy_in_a_thread(os.SCHED_IDLE) == os.SCHED_IDLE


def test_the_thread_of_a_group_takes_turns() -> None:
    worker = Worker("turns")
    assert worker.submit(lambda: os.sched_getscheduler(0)).result() == os.SCHED_BATCH
    worker.close()
