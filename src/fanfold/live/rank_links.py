"""Keys of a rank's links: sessions of its own with BFRs, and with its host's node.

It has them by the key of its host (docs/wire/link-keys.md section 1). What passes by memory
shared with a process of the same user needs none. A rank that may not read that key starts
where all its links that take nothing without keys share memory.
"""

import select
import socket

import numpy as np

from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.kernels.impairment import Impairments
from fanfold.kernels.state import I64
from fanfold.live import rank_loop as loop
from fanfold.live import sock as s
from fanfold.live.beside import Beside
from fanfold.live.channels import Channels, is_near
from fanfold.live.clock import now_ps
from fanfold.live.key_watch import KeyPlace, KeyWatch, OwnKey
from fanfold.live.lab import FABRIC_FILE, Lab, list_labs
from fanfold.live.link_driver import PUSH_PATIENCE_PS, LinkDriver, ends_of, room_for_links
from fanfold.live.ports import build_sock
from fanfold.live.rank_state import RankState
from fanfold.seals.keys import keys_folder
from fanfold.seals.link_keys import load_link_key
from fanfold.topo.fabric import Fabric
from fanfold.wire.inner import address_of

STEP_S = 0.01


def find_link_key(fabric: Fabric, name: str) -> OwnKey | None:
    """The key that the fabric file names for a host, of this user's folders or of a lab.

    Of a lab the fabric file is looked at too while the rank runs, elsewhere it is not.

    None where none of its links has keys, or no folder that this user may read holds it.
    """
    if not fabric.has_keys(name):
        return None
    node = fabric.by_name[name]
    homes = [Lab(each).folder for each in list_labs()]
    labs = [KeyPlace(home / "keys" / name, home / FABRIC_FILE) for home in homes]
    for place in (KeyPlace(keys_folder(name), None), *labs):
        try:
            key = load_link_key(place.folder)
        except ConfigError:  # there is none, or it is not this user's
            continue
        if key.text in (node.link_key, node.link_key_also):
            return OwnKey(key, place)
    return None


def build_rank_sock(fabric: Fabric, name: str, sock: socket.socket, n_ports: int) -> s.Sock:
    """Arrays of a rank's socket, with room for channels to BFRs beside it and for sessions."""
    ups = fabric.port_nodes(name)[1:]
    n_near = sum(is_near(n.address) and n.role == "bfr" for n in ups)
    return build_sock(sock, n_ports, n_channels=n_near, n_links=room_for_links(fabric, name))


class RankLinks:
    """Sessions of one rank, and its compiled loop with them.

    Args:
        sock, io: of the rank; its last port leads to its host's node. near: addresses of its
        ports. drops: counted by reason.
    """

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        sock: socket.socket,
        io: s.Sock,
        near: I64,
        drops: I64,
        channels: Channels,
    ) -> None:
        self._fabric, self._name, self._io = fabric, name, io
        self._sock, self._channels = sock, channels
        self.driver: LinkDriver | None = None
        key = find_link_key(fabric, name)
        if key is not None:
            beside = Beside(sock, io, np.concatenate([np.zeros(1, np.int64), near]), drops)
            ends = ends_of(fabric, name, len(near))
            watch = KeyWatch(key, fabric, name, lambda line: None)
            self.driver = LinkDriver(
                beside, fabric, name, watch, ends, lambda port: None, PUSH_PATIENCE_PS
            )

    def begin(self, state: RankState, impairments: Impairments, drops: I64) -> None:
        """Have a key where the first array is to leave by a socket.

        Raises:
            EnvironmentLack: there is none, or a neighbour does not answer.
        """
        if self.driver is None:
            self._require_memory()
            return

        def step() -> None:
            select.select([self._sock], [], [], STEP_S)
            self.serve(state, impairments, drops, 0)

        self.driver.wait_for_keys(step, self._needs_key)

    def serve(
        self, state: RankState, impairments: Impairments, drops: I64, until_ps: int
    ) -> int:
        """``serve_rank``, with handshakes looked at meanwhile."""
        if self.driver is None:
            return loop.serve_rank(self._io, state, impairments, drops, until_ps)
        while True:
            self.driver.on_timer(now_ps())
            till_ps = min(until_ps, self.driver.deadline_ps(0))
            code = loop.serve_rank(self._io, state, impairments, drops, till_ps)
            if code == loop.HANDSHAKES:
                self._take_handshakes()
            elif code != loop.LATE or now_ps() >= until_ps:
                return code

    def close(self) -> None:
        """Give sessions back."""
        if self.driver is not None:
            self.driver.close()

    def _take_handshakes(self) -> None:
        assert self.driver is not None
        ints = self._io.ints
        for at in range(int(ints[s.NEXT]), int(ints[s.END]), int(ints[s.SEG])):
            end = min(at + int(ints[s.SEG]), int(ints[s.END]))
            self.driver.on_link(now_ps(), self._io.buf[at:end].tobytes(), int(ints[s.PORT]))

    def _require_memory(self) -> None:
        """Refuse arrays that would leave by a link that takes none without keys."""
        for to in self._fabric.neighbours[self._name]:
            if self._is_required(to) and not self._shares_memory(to):
                raise EnvironmentLack(
                    f"rank on {self._name}: no memory shared with {to}, and no key for their "
                    "link, which takes nothing without; run it as the user who may read "
                    f"{keys_folder(self._name)}"
                )

    def _needs_key(self, to: str) -> bool:
        """Arrays may leave to a node by a socket; to its own only where there is no BFR."""
        if to == self._name:
            ups = self._fabric.neighbours[self._name]
            return all(self._fabric.by_name[up].role != "bfr" for up in ups)
        return self._is_required(to) and not self._shares_memory(to)

    def _is_required(self, to: str) -> bool:
        return self._fabric.key_modes[frozenset((self._name, to))] == "required"

    def _shares_memory(self, to: str) -> bool:
        address = self._fabric.by_name[to].address
        return is_near(address) and (
            self._channels.find(address_of(address), self._fabric.port) >= 0
        )
