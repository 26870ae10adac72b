"""Planted faults of the PyTorch backend, where PyTorch is: file, text, faulty text, test."""

from importlib.util import find_spec

GROUP = "tests/unit/torch_backend/test_torch_group.py::"
LIFE = "tests/unit/torch_backend/test_torch_life.py::"
MEETING = "tests/unit/torch_backend/test_torch_meeting.py::"
RULES = "tests/unit/torch_backend/test_torch_rules.py::"
UNEVEN = GROUP + "test_uneven_sizes"
MOVES = GROUP + "test_moves_between_ranks"
ODD = GROUP + "test_tensors_that_are_not_contiguous_or_empty_or_need_gradients"
SUMS = GROUP + "test_all_reduce_sums_every_dtype"
DIFFERS = GROUP + "test_what_differs_is_refused_on_all_ranks_by_wait_and_by_future"
CALLBACK = LIFE + "test_a_callback_of_a_future_may_wait_for_another_operation"
FORK = LIFE + "test_a_fork_is_told_that_a_group_is_not_its_own"
DROPPED = LIFE + "test_nothing_of_a_group_waits_for_the_garbage_collector"
WRONG_PLACE = GROUP + "test_lists_and_dtypes_that_would_go_to_the_wrong_place_are_refused"

ROWS = (
    (
        "src/fanfold/torch/__init__.py",
        "store.clone())",
        "store)",
        MEETING + "test_a_program_that_waits_in_its_store_holds_up_no_group",
    ),
    (
        "src/fanfold/torch/tensors.py",
        "torch.inference_mode():",
        "torch.no_grad():",
        GROUP + "test_tensors_of_inference_mode",
    ),
    (
        "src/fanfold/torch/tensors.py",
        "if out.dtype != source.dtype:",
        "if out.itemsize != source.itemsize:",
        WRONG_PLACE,
    ),
    (
        "src/fanfold/torch/plans.py",
        "if size not in (None, tensor.numel())",
        "if False",
        WRONG_PLACE,
    ),
    (
        "src/fanfold/torch/group.py",
        "if not is_pair:",
        "if True:",
        GROUP + "test_a_refused_message_of_a_pair_leaves_the_group_in_step",
    ),
    (
        "src/fanfold/torch/runner.py",
        "self._comm.barrier(timeout_ps=timeout_ps)",
        "self._comm.barrier(timeout_ps=timeout_ps).wait()",
        GROUP + "test_a_group_is_closed_at_once_after_a_refusal",
    ),
    (
        "src/fanfold/torch/work.py",
        "raise self.error\n        return self.tensors",
        "return self.error\n        return self.tensors",
        DIFFERS,
    ),
    (
        "src/fanfold/torch/work.py",
        "if self._outcome.error is not None:\n            raise",
        "if self._outcome.error is None and False:\n            raise",
        DIFFERS,
    ),
    (
        "src/fanfold/torch/work.py",
        "{'refused since ' if is_before else ''}",
        "",
        GROUP + "test_a_rank_that_sleeps_is_named_at_the_deadline",
    ),
    (
        "src/fanfold/torch/tensors.py",
        "None if dense.data_ptr() == tensor.data_ptr() else tensor",
        "None",
        ODD,
    ),
    (
        "src/fanfold/torch/tensors.py",
        "np.frombuffer(memory, dtype), kind",
        "np.frombuffer(memory, dtype).copy(), kind",
        SUMS,
    ),
    (
        "src/fanfold/torch/plans.py",
        "return 2 if tensor.is_complex() else 1",
        "return 1",
        GROUP + "test_all_to_all_of_complex_numbers_by_splits",
    ),
    (
        "src/fanfold/torch/plans.py",
        "wrong = np.argwhere(given != taken.T)",
        "wrong = np.argwhere(given != given)",
        GROUP + "test_splits_that_differ_are_refused_on_all_ranks",
    ),
    (
        "src/fanfold/torch/plans.py",
        "if op not in OPS:",
        "if op in OPS and False:",
        GROUP + "test_wrong_arguments_are_raised_at_the_call",
    ),
    (
        "src/fanfold/torch/collectives.py",
        "[flat] if root == self._rank else [],",
        "[],",
        GROUP + "test_a_sum_on_one_rank_into_a_tensor_with_holes",
    ),
    (
        "src/fanfold/torch/group.py",
        "lambda: [work.wait() for work in works]",
        "lambda: None",
        GROUP + "test_coalesced_work_fails_with_what_it_holds",
    ),
    (
        "src/fanfold/torch/runner.py",
        "self._refuse(task.work.timeout_ps)",
        "del task",
        GROUP + "test_arguments_that_are_wrong_on_one_rank_are_refused_on_all",
    ),
    (
        "src/fanfold/torch/runner.py",
        "        self._meeting.leave()\n",
        "",
        GROUP + "test_what_is_under_way_ends_when_the_group_is_closed",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "if self.rank == tellers[0] and len(tellers) < len(digests):",
        "if self.rank == 0:",
        MEETING + "test_one_rank_that_was_told_tells_the_others",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "READ_FABRIC = msgspec.json.Decoder(Fabric)",
        'READ_FABRIC = type("", (), {"decode": lambda t: msgspec.json.decode(t, type=Fabric)})',
        MEETING + "test_no_thread_of_a_group_is_the_first_to_ask_msgspec_for_a_struct",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "if others:",
        "if not digests:",
        MEETING + "test_different_fabrics_are_refused_on_all_ranks",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "if first[host] != rank:",
        "if first[host] > rank:",
        MEETING + "test_two_ranks_on_one_host_are_refused_on_all_ranks",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "if made is not None and not busy:",
        "if made is not None:",
        MEETING + "test_another_number_is_drawn_where_a_port_is_taken",
    ),
    (
        "src/fanfold/torch/meeting.py",
        "now_ps() > self.deadline_ps:",
        "now_ps() > 10**6 * self.deadline_ps:",
        MEETING + "test_a_rank_that_does_not_come_is_named_at_the_deadline",
    ),
    (
        "src/fanfold/torch/seat.py",
        "        except OSError:\n            return False",
        "        except OSError:\n            return True",
        MEETING + "test_addresses_of_other_machines_are_nobodys_here",
    ),
    (
        "src/fanfold/torch/__init__.py",
        'f"fanfold/{key}/{_n_made[key]}/"',
        'f"fanfold/{sum(_n_made.values())}/"',
        MEETING + "test_the_store_of_a_group_is_named_by_its_ranks",
    ),
    (
        "src/fanfold/torch/__init__.py",
        "from fanfold.torch.seat import FanfoldOptions\n\nNAME",
        "import torch\nfrom fanfold.torch.seat import FanfoldOptions\n\nNAME",
        MEETING + "test_fanfold_may_be_imported_before_pytorch",
    ),
    ("src/fanfold/torch/runner.py", "self._tellers.tell(tell)", "tell()", CALLBACK),
    (
        "src/fanfold/torch/runner.py",
        "if os.getpid() != self._pid:  # before",
        "if not self._pid:  # before",
        FORK,
    ),
    ("src/fanfold/torch/work.py", "if os.getpid() != self._pid:", "if not self._pid:", FORK),
    (
        "src/fanfold/torch/meeting.py",
        "            self._store.close()",
        "            pass",
        DROPPED,
    ),
    ("src/fanfold/torch/runner.py", "del begun, task, ends, errors", "del errors", DROPPED),
    (
        "src/fanfold/torch/runner.py",
        "self._give_up(silence)",
        "pass",
        MEETING + "test_a_store_that_does_not_answer_holds_up_nobody_past_the_deadline",
    ),
    (
        "src/fanfold/torch/runner.py",
        "if is_late:\n            comm.close()",
        "if not comm:\n            comm.close()",
        MEETING + "test_a_rank_that_closes_before_it_met_gives_its_communicator_back",
    ),
    (
        "src/fanfold/torch/work.py",
        "if self._over.is_set():\n                    raw",
        "if not raw:\n                    raw",
        LIFE + "test_a_future_that_is_asked_for_late_is_over",
    ),
    (
        "src/fanfold/torch/plans.py",
        "if any(n > 1 and not step",
        "if any(n > 1 and step < 0",
        GROUP + "test_a_tensor_whose_elements_are_one_takes_no_outcome",
    ),
    (
        "src/fanfold/torch/alone.py",
        "    if root:\n",
        "    if root < 0:\n",
        GROUP + "test_a_group_of_one_copies",
    ),
    (
        "src/fanfold/torch/seat.py",
        "if place < 0:",
        "if place < -1:",
        MEETING + "test_where_fabric_and_host_are_looked_for",
    ),
    (
        "src/fanfold/torch/__init__.py",
        "own is None or isinstance(own, FanfoldOptions)",
        "own is None or own",
        MEETING + "test_options_of_another_backend_are_refused_at_once",
    ),
    (
        "src/fanfold/group/session.py",
        "LEAVING = 1",
        "LEAVING = 0",
        "tests/live/test_torch_live.py::test_who_differs_sleeps_or_dies_is_named_on_every_rank",
    ),
    (
        "src/fanfold/torch/seat.py",
        "env.get(STRAGGLERS) or WAIT",
        "WAIT",
        RULES + "test_rules_are_those_of_the_options_then_of_the_environment",
    ),
)
PLANTS: tuple[tuple[str, str, str, str], ...] = ROWS if find_spec("torch") else ()
