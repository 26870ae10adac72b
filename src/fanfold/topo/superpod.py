"""Scale-up SuperPoD: every GPU has one port in each plane, a plane is one leaf switch.

draft-xu-rtgwg-fare-in-sun section 1: 64 GPUs with four 800 Gbit/s ports each; a port splits by
a Y-cable into two legs of 400 Gbit/s to the leaf of its plane, which so uses all its 128 ports.
Fans and sums use one plane of them.
"""

import numpy as np

from fanfold.errors import ConfigError
from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch


def superpod(gpus: int, planes: int, legs: int, ports: int, *, line: Line = LINE) -> Net:
    """One tier of ``planes`` leaves of ``ports`` ports; ``line`` is one leg of a Y-cable.

    Raises:
        ConfigError: more legs than a leaf has ports.
    """
    if gpus * legs > ports:
        raise ConfigError("gpus", gpus, f"at most {ports // legs}: ports / legs of a leaf")
    sketch = Sketch(gpus)
    leaf = sketch.add("leaf", planes, 1)
    plane = np.arange(planes)[None, :, None]
    leg = np.zeros((1, 1, legs), np.int64)
    sketch.cable(sketch.hosts[:, None, None] + leg, leaf[plane], line, plane)
    return sketch.build("superpod")
