"""The file and tensor service: manifest, source, store, sender, receiver.

The package can be called: ``fanfold.push("model.safetensors")`` is ``api/pushing.py``.
"""

from fanfold.callable_package import make_callable

make_callable("fanfold.push", "fanfold.api.pushing")
