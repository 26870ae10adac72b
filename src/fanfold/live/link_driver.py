"""Keys of a node's links, driven: handshakes as packets, sessions as rows of compiled code.

The machine is core/link_keys.py. A push or a rank, a process of its own, has its own sessions
with the BFRs next to its host, by the same key of that node; a rank with its host's node too.
"""

import os
from collections.abc import Callable
from typing import Any

from fanfold.core.link_keys import (
    DropKeys,
    Ground,
    KeyEffect,
    LinkKeys,
    Peer,
    SendHandshake,
    TakeKeys,
)
from fanfold.errors import ConfigError, EnvironmentLack, WireError
from fanfold.kernels.codes import DROP_BAD_HANDSHAKE
from fanfold.live import libcrypto
from fanfold.live import sock as s
from fanfold.live.beside import Beside
from fanfold.live.chance import draw_octets
from fanfold.live.clock import now_ps, start_unix_ps
from fanfold.live.event_loop import EventLoop
from fanfold.live.key_log import open_key_log
from fanfold.live.key_watch import KeyWatch, OwnKey
from fanfold.live.link_table import LIVE, NEW, NONE
from fanfold.live.link_tags import IN, OUT
from fanfold.live.trailers import REQUIRED
from fanfold.seals.link_keys import read_link_public
from fanfold.topo.fabric import REVOKED, Fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire.handshake import KNOWN, Handshake
from fanfold.wire.inner import address_of
from fanfold.wire.link import build_link, parse_link

NODE_PATIENCE_PS = 3 * PS_PER_SECOND
"""Neighbours speak once a second, and one that starts again asks by itself."""
PUSH_PATIENCE_PS = 300 * PS_PER_MS
"""Of a push or a rank: a BFR that starts again asks none of them."""
SPARE_LINKS = 64
"""Sessions of pushes that a node has at once."""
SESSIONS_A_PORT = 4
"""One in use, the one before it, one asked for, one that the other end asked for."""
FIRST_KEYS_PS = 10 * PS_PER_SECOND
"""A push that has no key after so long ends."""
MODES = {"off": 0, "on": 1, "required": REQUIRED}


def room_for_links(fabric: Fabric, name: str) -> int:
    """Sessions that a process of a node may have."""
    if not fabric.has_keys(name):
        return 0
    return SESSIONS_A_PORT * len(fabric.neighbours[name]) + SPARE_LINKS


def drive_links(
    event_loop: EventLoop,
    fabric: Fabric,
    name: str,
    own: OwnKey | None,
    on_key: Callable[[int], None] = lambda port: None,
    *,
    patience_ps: int = NODE_PATIENCE_PS,
    tell: Callable[[str], None] = lambda line: None,
) -> "LinkDriver | None":
    """Give the links of a process their keys; None where none is to have any.

    Raises:
        ConfigError: its key is missing, or another one than the fabric file says.
        EnvironmentLack: no libcrypto.
    """
    if not fabric.has_keys(name):
        return None
    if own is None:
        raise ConfigError(f"{name}: link key", "none", "the one that the fabric file names")
    node = fabric.by_name[name]
    if own.key.text not in (node.link_key, node.link_key_also):
        allowed = f"{own.key.text}, that of this node's key file"
        raise ConfigError(f"{name}: link_key", node.link_key, allowed)
    watch = KeyWatch(own, fabric, name, tell)
    driver = LinkDriver(
        event_loop.beside, fabric, name, watch, ends_of(fabric, name, 0), on_key, patience_ps
    )
    event_loop.links = driver
    return driver


def ends_of(fabric: Fabric, name: str, own_port: int) -> dict[int, str]:
    """Nodes by port of a process of a node; own_port: where the node itself is.

    A rank finds its host's node behind its last port, a node its host's ranks behind port 0.
    """
    ends = dict(enumerate(fabric.neighbours[name], start=1))
    return ends | {own_port: name}


class LinkDriver:
    """Keys of the links of one process.

    Args:
        beside: how it sends. watch: keys of nodes. ends: of ``ends_of``.
        on_key: told of a port whose neighbour's node has a key with this process now.
    """

    def __init__(
        self,
        beside: Beside,
        fabric: Fabric,
        name: str,
        watch: KeyWatch,
        ends: dict[int, str],
        on_key: Callable[[int], None],
        patience_ps: int,
    ) -> None:
        self._beside, self._fabric, self._name, self._on_key = beside, fabric, name, on_key
        self._ends, self._own_port = ends, next(p for p, to in ends.items() if to == name)
        self._watch = watch
        self._log = open_key_log(os.environ)
        if self._log is not None:
            watch.tell(self._log.warning(name))
        self._revoked: set[str] = set()
        io = self._io = beside.io
        for port, to in ends.items():
            if to != name:
                enable_keys(io, port, fabric.key_modes[frozenset((name, to))])
        if (io.exits["keys"] == REQUIRED).any():
            # nor does who has this node's address speak by it: ranks have sessions of their own
            io.exits[self._own_port]["keys"] = REQUIRED
        self._table = io.links
        ground = Ground(
            own=watch.own,
            own_port=beside.sock.getsockname()[1],
            node_port=fabric.port,
            n_rows=len(io.links.rows),
            unix_ns=start_unix_ps() // 1000,
            patience_ps=patience_ps,
        )
        peers = self._peers()
        self.machine = LinkKeys(now_ps(), ground, peers, draw_octets, self._look)

    def on_link(self, now: int, octets: bytes, port: int) -> None:
        """A message of a handshake; what is refused is counted."""
        out: list[KeyEffect] = []
        try:
            message = parse_link(octets)
        except WireError:
            is_taken = False
        else:
            is_taken = isinstance(message, Handshake) and self.machine.on_message(
                now, port, message, out
            )
        if not is_taken:
            self._beside.drops[DROP_BAD_HANDSHAKE] += 1
        self._perform(out)

    def on_timer(self, now: int) -> None:
        """Sessions that are due, or over."""
        if now < self.machine.deadline_ps():
            return
        out: list[KeyEffect] = []
        if self._watch.look(now):
            self._take_keys(now, out)
        self.machine.on_timer(now, out)
        self._perform(out)

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do."""
        del now
        return self.machine.deadline_ps()

    def wait_for_keys(
        self, step: Callable[[], object], is_needed: Callable[[str], bool] = lambda to: True
    ) -> None:
        """Work until every neighbour that must have a key has one with this process.

        Args:
            step: works for a while. is_needed: of these neighbours.

        Raises:
            EnvironmentLack: some has none.
        """
        until_ps = now_ps() + FIRST_KEYS_PS
        while lacking := [to for to in self._lacking() if is_needed(to)]:
            if now_ps() > until_ps:
                raise EnvironmentLack(
                    f"{self._name}: no key with {', '.join(lacking)}; see whether it runs, and "
                    "whether both fabric files name the link_key of both"
                )
            step()

    def _lacking(self) -> list[str]:
        keys = self._io.exits["keys"]
        return [
            to
            for port, to in self._ends.items()
            if keys[port] == REQUIRED
            and port > 0
            and not self._is_revoked(to)
            and not self.machine.has_session(port)
        ]

    def rekey(self, revoked: tuple[str, ...] = ()) -> dict[str, Any]:
        """Ask for new sessions with all neighbours; no more with those that are revoked.

        Raises:
            ConfigError: one is no neighbour.
        """
        for to in revoked:
            if to not in (names := self._fabric.neighbours[self._name]):
                raise ConfigError("revoked", to, ", ".join(names))
        out: list[KeyEffect] = []
        self._revoked |= set(revoked)
        self.machine.set_peers(now_ps(), self._peers(), out)
        self._perform(out)
        self.machine.rekey(now_ps())
        return {"ok": True, "revoked": sorted(self._revoked)}

    def read_files(self) -> dict[str, Any]:
        """Take keys as files have them now, without waiting for the next look."""
        out: list[KeyEffect] = []
        if self._watch.look(now_ps(), at_once=True):
            self._take_keys(now_ps(), out)
            self._perform(out)
        return {"ok": True, "key": self.machine.own.text}

    def _take_keys(self, now: int, out: list[KeyEffect]) -> None:
        """Use other keys: of this node, which all neighbours are asked by, and of others."""
        was = self.machine.own.text
        self.machine.set_own(self._watch.own, self._watch.older)
        self.machine.set_peers(now, self._peers(), out)
        if self._watch.own.text != was:
            self.machine.rekey(now)

    def close(self) -> None:
        """Give all sessions back to the library that made them."""
        for row in range(len(self._table.rows)):
            clear_session(self._io, row)
        if self._log is not None:
            self._log.close()

    def status(self) -> dict[str, Any]:
        """Of each neighbour whether packets have keys, and how old the session is."""
        now = now_ps()
        rows: dict[str, Any] = {}
        for port, to in self._ends.items():
            mode = int(self._io.exits[port]["keys"])
            if mode == 0 or to == self._name:
                continue
            age_ps = self.machine.age_ps(now, port)
            rows[to] = {"mode": next(word for word, n in MODES.items() if n == mode)}
            if age_ps >= 0:
                rows[to]["age_s"] = round(age_ps / PS_PER_SECOND, 3)
            if self._is_revoked(to):
                rows[to]["revoked"] = True
        made, asked = self.machine.n_made, self.machine.n_cookies
        n_used = int((self._table.rows["state"] != NONE).sum())
        return {
            "link_keys": {"links": rows, "made": made, "cookies": asked, "sessions": n_used}
        }

    def _is_revoked(self, to: str) -> bool:
        """By a word of who runs the lab, or by the fabric file."""
        return to in self._revoked or self._watch.nodes[to].link_key == REVOKED

    def _peers(self) -> dict[int, Peer]:
        found = {}
        for port, to in self._ends.items():
            node, public, also = self._watch.nodes[to], b"", b""
            if self._io.exits[port]["keys"] and not self._is_revoked(to):
                public = read_link_public(node.link_key, f"{to}: link_key")
                if node.link_key_also:
                    also = read_link_public(node.link_key_also, f"{to}: link_key_also")
            is_first = self._name < to or self._own_port > 0
            addr = address_of(self._fabric.by_name[to].address)
            found[port] = Peer(public, addr, is_first, port > 0, also)
        return found

    def _look(self, row: int) -> tuple[int, int]:
        link = self._table.rows[row]
        return int(link["n_in"]), int(link["sent"])

    def _perform(self, out: list[KeyEffect]) -> None:
        for effect in out:
            match effect:
                case SendHandshake(port, dport, message):
                    self._send(port, dport, message)
                case TakeKeys():
                    write_session(self._io, effect)
                    if self._log is not None:
                        self._log.note_link(effect.id, effect.peer_id, effect.keys)
                case DropKeys(row):
                    clear_session(self._io, row)

    def _send(self, port: int, dport: int, message: Handshake) -> None:
        octets = build_link(message)
        if message.step == KNOWN:  # its trailer is what it says
            self._beside.send(octets, port, dport)
            if dport == self._fabric.port:
                self._on_key(port)
        elif not self._io.exits[port]["shut"]:
            self._beside.send_openly(octets, port, dport)


def write_session(io: s.Sock, new: TakeKeys) -> None:
    """Let compiled code use a session from now on, in the place of what is in its row."""
    clear_session(io, new.row)
    table = io.links
    for way, keys in ((OUT, new.keys.out), (IN, new.keys.came)):
        table.first[new.row, way] = keys.first
        table.later[new.row, way] = keys.later
    row = table.rows[new.row]
    row["cipher_out"] = libcrypto.make_cipher(new.keys.out.pad)
    row["cipher_in"] = libcrypto.make_cipher(new.keys.came.pad)
    row["id"], row["peer_id"] = new.id, new.peer_id
    row["port"], row["dport"] = new.port, new.dport
    row["state"] = LIVE if new.is_confirmed else NEW
    if new.is_confirmed:
        same = (table.rows["port"] == new.port) & (table.rows["dport"] == new.dport)
        table.rows["sends"][same] = 0
        row["sends"] = 1
    io.ints[s.LINKS] = _n_rows(io)


def clear_session(io: s.Sock, n: int) -> None:
    """Forget a session and its keys."""
    table = io.links
    for name in ("cipher_out", "cipher_in"):
        if table.rows[n][name]:
            libcrypto.free_cipher(int(table.rows[n][name]))
    for array in (table.rows, table.seen, table.first, table.later):
        array[n] = 0
    io.ints[s.LINKS] = _n_rows(io)


def enable_keys(io: s.Sock, port: int, mode: str) -> None:
    """From now on packets of a port are as ``link_keys`` of a fabric file says.

    Raises:
        EnvironmentLack: no libcrypto.
    """
    io.exits[port]["keys"] = MODES[mode]
    if MODES[mode]:
        io.ints[s.AES_AT], io.ints[s.KEYED] = libcrypto.load().update_at, 1


def _n_rows(io: s.Sock) -> int:
    used = io.links.rows["state"].nonzero()[0]
    return int(used[-1]) + 1 if len(used) else 0
