"""Studies: workloads by every scheme, what it costs, and what that means.

The package can be called: ``fanfold.study("moe-dispatch", gpus=256)`` is ``study/api.py``.
"""

from fanfold.callable_package import make_callable

make_callable("fanfold.study", "fanfold.study.api")
