"""A star: all hosts hang on one router."""

from fanfold.topo.net import Net
from fanfold.topo.sketch import LINE, Line, Sketch


def star(hosts: int, *, line: Line = LINE) -> Net:
    """Star of hosts around one router."""
    sketch = Sketch(hosts)
    sketch.cable(sketch.hosts, sketch.add("hub", 1, 1), line)
    return sketch.build("star")
