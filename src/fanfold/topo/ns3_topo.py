"""Nets from the topology text of ns-3's RDMA simulators: HPCC's, ASTRA-sim's and SimAI's.

    N S L                      nodes, of these switches, links
    N G V S L gpu              as SimAI writes it: GPUs of a server, NVSwitches, switches
    id id ...                  of the switches
    a b 100Gbps 0.001ms 0      a link each: ends, rate, delay, error rate

Words are read one after the other, as ns-3 does, however they are broken into lines. The error
rate of a link is not used: loss is a setting of a run. Node i is called ``ni``.
"""

from collections.abc import Iterator
from pathlib import Path

from fanfold.errors import ConfigError
from fanfold.topo.graph_net import Attrs, Edge, Graph, net_of, short
from fanfold.topo.limits import MAX_CABLES, MAX_HOSTS
from fanfold.topo.net import Net
from fanfold.topo.sketch import Line
from fanfold.topo.text_lines import Word, lines_of

MAX_NODES = 4 * MAX_HOSTS
_HEAD, _SIMAI = ("nodes", "switches", "links"), 6


def load_ns3_topo(path: Path, line: Line) -> Net:
    """Net of a file.

    Raises:
        ConfigError: no such file, or the first word that does not fit.
    """
    (where, head), *rest = lines_of(path)
    n_nodes, n_switches, n_links = _head([Word(text, where) for text in head], str(path))
    words = (Word(text, at) for at, texts in rest for text in texts)
    ids = _ids(words, n_nodes, n_switches, str(path))
    nodes: dict[str, Attrs] = {
        f"n{i}": {"role": "switch" if i in ids else "host"} for i in range(n_nodes)
    }
    edges = []
    n_lossy = 0
    for i in range(n_links):
        link = f"link {i + 1} of {n_links}"
        a, b, rate, delay, loss = (_next(words, link, str(path)) for _ in range(5))
        low, high = (f"n{_number(end, n_nodes - 1)}" for end in (a, b))
        n_lossy += _is_lossy(loss)
        edges.append(Edge(low, high, {"rate": rate.text, "delay": delay.text}, a.where))
    for more in words:
        raise ConfigError(more.where, short(more.text), f"{n_links} links, as line 1 says")
    notes = (f"error rates of {n_lossy} links are not used: loss is a setting of a run",)
    return net_of(Graph(nodes, edges, notes=notes if n_lossy else ()), line, str(path))


def _head(words: list[Word], source: str) -> tuple[int, int, int]:
    """Nodes, switches, links."""
    if len(words) not in (len(_HEAD), _SIMAI):
        got = short(" ".join(word.text for word in words))
        raise ConfigError(
            words[0].where, got, f"three numbers: {', '.join(_HEAD)}; or SimAI's six"
        )
    numbers = [_number(word, MAX_CABLES) for word in words[:5]]
    if len(words) == _SIMAI:
        numbers = [numbers[0], numbers[2] + numbers[3], numbers[4]]
    n_nodes, n_switches, n_links = numbers
    if not 1 <= n_nodes <= MAX_NODES:
        raise ConfigError(f"{source}: nodes", n_nodes, f"1..{MAX_NODES}")
    if n_switches >= n_nodes:
        raise ConfigError(f"{source}: switches", n_switches, f"fewer than the {n_nodes} nodes")
    return n_nodes, n_switches, n_links


def _ids(words: Iterator[Word], n_nodes: int, n_switches: int, source: str) -> set[int]:
    ids: set[int] = set()
    for i in range(n_switches):
        word = _next(words, f"switch {i + 1} of {n_switches}", source)
        number = _number(word, n_nodes - 1)
        if number in ids:
            raise ConfigError(word.where, number, "each switch once")
        ids.add(number)
    return ids


def _next(words: Iterator[Word], what: str, source: str) -> Word:
    word = next(words, None)
    if word is None:
        raise ConfigError(
            f"{source}: end of file", "nothing", f"{what}: a b rate delay error-rate"
        )
    return word


def _number(word: Word, most: int) -> int:
    text = word.text
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > most:
        raise ConfigError(word.where, short(text), f"a number, 0..{most}")
    return int(text)


def _is_lossy(word: Word) -> bool:
    try:
        rate = float(word.text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise ConfigError(word.where, short(word.text), "an error rate, 0..1")
    return rate > 0
