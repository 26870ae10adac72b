"""What comes next at a site with a relay: who sends to whom, while somebody lacks the push.

A machine: words of others in, fans to be sent out. The relay sends on once it is verified.
Where it is lost, or its fan left somebody behind, the best other host of the site that is
verified tries, and at last the source itself; each host tries once, so that a course ends.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Send(NamedTuple):
    """A fan to be sent now."""

    source: str
    targets: tuple[str, ...]


class RelayCourse:
    """One site.

    Args:
        source: of the push. relay: who is to pass on. ranked: hosts that may, best first.
        hosts: all receivers of the site, in order.
    """

    def __init__(
        self, source: str, relay: str, ranked: Sequence[str], hosts: Sequence[str]
    ) -> None:
        self.source, self.relay = source, relay
        self.left = [host for host in hosts if host != relay]
        """Who is not verified yet, but for the relay."""
        self.sending: Send | None = None
        self._ranked = [relay, *(host for host in ranked if host != relay)]
        self._verified: set[str] = set()
        self._gone: set[str] = set()
        self._tried: set[str] = set()
        self._is_pending = True  # nobody knows yet what becomes of the relay

    def is_over(self) -> bool:
        """Nothing is under way, and nothing comes any more."""
        return self.sending is None and not self._is_pending and self._next() is None

    def on_relay(self, *, is_verified: bool) -> Send | None:
        """The source has the relay's own word that it has all; or it is lost."""
        if is_verified:
            self._verified.add(self.relay)
        else:
            self._gone.add(self.relay)
        if not self._is_pending:
            return None  # it came back too late: others do its work
        self._is_pending = False
        return self._begin()

    def on_dead(self, host: str) -> None:
        """A host can send no more."""
        self._gone.add(host)

    def on_end(self, verified: Iterable[str]) -> Send | None:
        """The fan under way has ended; who was verified by it."""
        self._verified.update(verified)
        self.left = [host for host in self.left if host not in self._verified]
        self.sending = None
        return self._begin()

    def _begin(self) -> Send | None:
        self.sending = self._next()
        if self.sending is not None:
            self._tried.add(self.sending.source)
        return self.sending

    def _next(self) -> Send | None:
        if not self.left:
            return None
        able = [h for h in self._ranked if h in self._verified and h not in self._gone]
        for host in (*able, self.source):
            if host not in self._tried:
                return Send(host, tuple(self.left))
        return None
