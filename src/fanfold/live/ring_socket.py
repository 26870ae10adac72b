"""A BFR's control socket for channels: offers heard, offers made to BFRs beside it.

A thread waits at the socket, the node's loop takes what it hears. Of two BFRs the one with the
lower address offers, as long as there is no channel; ranks offer theirs.
"""

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from fanfold.live import sock as s
from fanfold.live.channels import Channels, Offer, hear_offer, is_near, socket_name
from fanfold.live.clock import now_ps
from fanfold.topo.fabric import Fabric
from fanfold.units import PS_PER_SECOND
from fanfold.wire.inner import address_of

LOOK_S = 0.5
OFFER_PS = PS_PER_SECOND // 2
"""Between two offers to neighbours that have no channel."""
MOST_WAIT = 64


class RingSocket:
    """Control socket of one BFR of a fabric on loopback addresses.

    Args:
        wake: ends the loop's wait, for ``take_waiting``. may_use: whether a port may have one.
    """

    def __init__(
        self,
        fabric: Fabric,
        name: str,
        io: s.Sock,
        wake: Callable[[], None],
        may_use: Callable[[int], bool],
    ) -> None:
        me = fabric.by_name[name]
        self._own = (me.address, fabric.port)
        self._offer_ps = 0
        self._wake, self._may_use = wake, may_use
        self.channels = Channels(io)
        ends = list(enumerate(fabric.port_nodes(name)))[1:]
        self._port_of = {address_of(n.address): port for port, n in ends}
        self._peers = {
            n.address: port
            for port, n in ends
            if n.role == "bfr"
            and is_near(n.address)
            and address_of(n.address) > address_of(me.address)
        }
        self._waiting: queue.SimpleQueue[Offer] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._thread: threading.Thread | None = None
        with suppress(OSError):  # another process has the name: no channels, sockets do
            self._server.bind(socket_name(*self._own))
            self._server.listen(MOST_WAIT)
            self._server.settimeout(LOOK_S)
            self._thread = threading.Thread(target=self._wait, daemon=True)
            self._thread.start()

    def take_waiting(self) -> None:
        """Take what was offered, offer, and give back what is over; called by the loop."""
        self.channels.sweep()
        self._offer_all()
        while not self._waiting.empty():
            offer = self._waiting.get()
            port = self._port_of.get(offer.addr, 0)
            if port == 0 or not self._may_use(port):
                offer.refuse()
            else:
                self.channels.take(offer, port)

    def leave(self, port: int) -> None:
        """Give back the channels of a port."""
        self.channels.leave(port)

    def close(self) -> None:
        """End the thread and all channels."""
        self._is_over.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self._server.close()
        while not self._waiting.empty():
            self._waiting.get().refuse()
        self.channels.close()

    def _wait(self) -> None:
        while not self._is_over.is_set():
            try:
                conn, _ = self._server.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            offer = hear_offer(conn)
            if offer is not None:
                self._waiting.put(offer)
                self._wake()

    def _offer_all(self) -> None:
        """Offer a channel to each neighbour that is to have one and has none."""
        now = now_ps()
        if now < self._offer_ps:
            return
        self._offer_ps = now + OFFER_PS
        for address, port in self._peers.items():
            if self.channels.find(address_of(address), self._own[1]) < 0 and self._may_use(
                port
            ):
                self.channels.offer(address, self._own[1], self._own, port)
