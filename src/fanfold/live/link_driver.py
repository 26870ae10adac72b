"""Keys of a node's links, driven: handshakes as packets, sessions as rows of compiled code.

The machine is core/link_keys.py. A push that runs as a process of its own has sessions of its
own with the BFRs next to its source, by the same key of that node.
"""

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
from fanfold.live.chance import draw_octets
from fanfold.live.clock import now_ps, start_unix_ps
from fanfold.live.event_loop import EventLoop
from fanfold.live.link_table import LIVE, NEW, NONE
from fanfold.live.trailers import IN, OUT, REQUIRED
from fanfold.seals.link_keys import LinkKey, read_link_public
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_MS, PS_PER_SECOND
from fanfold.wire.handshake import KNOWN, Handshake
from fanfold.wire.inner import address_of
from fanfold.wire.link import build_link, parse_link

NODE_PATIENCE_PS = 3 * PS_PER_SECOND
"""Neighbours speak once a second, and one that starts again asks by itself."""
PUSH_PATIENCE_PS = 300 * PS_PER_MS
SPARE_LINKS = 64
"""Sessions of pushes that a node has at once."""
SESSIONS_A_PORT = 4
"""One in use, the one before it, one asked for, one that the other end asked for."""
FIRST_KEYS_PS = 3 * PS_PER_SECOND
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
    own: LinkKey | None,
    on_key: Callable[[int], None] = lambda port: None,
    patience_ps: int = NODE_PATIENCE_PS,
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
    if own.text != fabric.by_name[name].link_key:
        allowed = f"{own.text}, that of this node's key file"
        raise ConfigError(f"{name}: link_key", fabric.by_name[name].link_key, allowed)
    driver = LinkDriver(event_loop, fabric, name, own, on_key, patience_ps)
    event_loop.links = driver
    return driver


def require_memory(fabric: Fabric, name: str, found: Callable[[str], bool]) -> None:
    """Refuse a rank of a host whose arrays would leave by a link that takes none without keys.

    found: whether the rank shares memory with a neighbour, which checked that both are of one
    user.

    Raises:
        EnvironmentLack: with some it does not.
    """
    for to in fabric.neighbours[name]:
        if fabric.key_modes[frozenset((name, to))] == "required" and not found(to):
            raise EnvironmentLack(
                f"rank on {name}: no memory shared with {to}, and their link takes no array "
                "without keys; run it on the machine of both, or leave that link open"
            )


class LinkDriver:
    """Keys of the links of one process.

    Args:
        on_key: told of a port whose neighbour's node has a key with this process now.
    """

    def __init__(
        self,
        event_loop: EventLoop,
        fabric: Fabric,
        name: str,
        own: LinkKey,
        on_key: Callable[[int], None],
        patience_ps: int,
    ) -> None:
        self._loop, self._fabric, self._name, self._on_key = event_loop, fabric, name, on_key
        self._names = fabric.neighbours[name]
        self._revoked: set[str] = set()
        io = event_loop.io
        for port, to in enumerate(self._names, start=1):
            enable_keys(io, port, fabric.key_modes[frozenset((name, to))])
        if (io.exits["keys"] == REQUIRED).any():
            io.exits[0]["keys"] = REQUIRED  # nor does who has this node's address speak by it
        self._table = io.links
        ground = Ground(
            own=own,
            own_port=event_loop.sock.getsockname()[1],
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
            self._loop.node.counters.drops[DROP_BAD_HANDSHAKE] += 1
        self._perform(out)

    def on_timer(self, now: int) -> None:
        """Sessions that are due, or over."""
        if now < self.machine.deadline_ps():
            return
        out: list[KeyEffect] = []
        self.machine.on_timer(now, out)
        self._perform(out)

    def deadline_ps(self, now: int) -> int:
        """When ``on_timer`` has something to do."""
        del now
        return self.machine.deadline_ps()

    def wait_for_keys(self) -> None:
        """Work until every neighbour that must have a key has one with this process.

        Raises:
            EnvironmentLack: some has none.
        """
        until_ps = now_ps() + FIRST_KEYS_PS
        while lacking := self._lacking():
            if now_ps() > until_ps:
                raise EnvironmentLack(
                    f"{self._name}: no key with {', '.join(lacking)}; see whether it runs, and "
                    "whether both fabric files name the link_key of both"
                )
            self._loop.step()

    def _lacking(self) -> list[str]:
        keys = self._loop.io.exits["keys"]
        return [
            to
            for port, to in enumerate(self._names, start=1)
            if keys[port] == REQUIRED
            and to not in self._revoked
            and not self.machine.has_session(port)
        ]

    def rekey(self, revoked: tuple[str, ...] = ()) -> dict[str, Any]:
        """Ask for new sessions with all neighbours; no more with those that are revoked.

        Raises:
            ConfigError: one is no neighbour.
        """
        for to in revoked:
            if to not in self._names:
                raise ConfigError("revoked", to, ", ".join(self._names))
        out: list[KeyEffect] = []
        self._revoked |= set(revoked)
        self.machine.set_peers(self._peers(), out)
        self._perform(out)
        self.machine.rekey(now_ps())
        return {"ok": True, "revoked": sorted(self._revoked)}

    def close(self) -> None:
        """Give all sessions back to the library that made them."""
        for row in range(len(self._table.rows)):
            clear_session(self._loop.io, row)

    def status(self) -> dict[str, Any]:
        """Of each neighbour whether packets have keys, and how old the session is."""
        now = now_ps()
        rows: dict[str, Any] = {}
        for port, to in enumerate(self._names, start=1):
            mode = int(self._loop.io.exits[port]["keys"])
            if mode == 0:
                continue
            age_ps = self.machine.age_ps(now, port)
            rows[to] = {"mode": next(word for word, n in MODES.items() if n == mode)}
            if age_ps >= 0:
                rows[to]["age_s"] = round(age_ps / PS_PER_SECOND, 3)
            if to in self._revoked:
                rows[to]["revoked"] = True
        made, asked = self.machine.n_made, self.machine.n_cookies
        n_used = int((self._table.rows["state"] != NONE).sum())
        return {
            "link_keys": {"links": rows, "made": made, "cookies": asked, "sessions": n_used}
        }

    def _peers(self) -> list[Peer]:
        found = []
        for to in self._names:
            node = self._fabric.by_name[to]
            has_key = self._fabric.key_modes[frozenset((self._name, to))] != "off"
            public = b""
            if has_key and to not in self._revoked:
                public = read_link_public(node.link_key, f"{to}: link_key")
            found.append(Peer(public, address_of(node.address), self._name < to))
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
                    write_session(self._loop.io, effect)
                case DropKeys(row):
                    clear_session(self._loop.io, row)

    def _send(self, port: int, dport: int, message: Handshake) -> None:
        octets = build_link(message)
        if message.step == KNOWN:  # its trailer is what it says
            self._loop.send_beside(octets, port, dport)
            if dport == self._fabric.port:
                self._on_key(port)
        elif not self._loop.io.exits[port]["shut"]:
            self._loop.send_openly(octets, port, dport)


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
