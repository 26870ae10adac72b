"""Methods that ``torch.compile`` calls and does not trace.

A compiled program runs a collective that it cannot put into its graph, one with ``async_op``
say, between two graphs; and then PyTorch 2.13 tries to trace the collective's own Python, which
asks a process group for what it does not know. ``torch.compiler.disable`` would do, but loads
the compiler, two seconds, in programs that never compile.
"""

from types import FunctionType
from typing import Any, TypeVar

from torch._C._dynamo.eval_frame import (
    _FrameAction,
    _FrameExecStrategy,
    set_code_exec_strategy,
)

T = TypeVar("T", bound=type[Any])


def untraced(group: T) -> T:
    """Mark all methods of a class, and what they call."""
    skip = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    for method in vars(group).values():
        if isinstance(method, FunctionType):
            set_code_exec_strategy(method.__code__, skip)
    return group
