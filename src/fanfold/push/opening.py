"""A manifest becomes an open push: read, checked, its folder locked; thousands of files long.

A part of the work of hands, so that a node answers meanwhile. Whoever asked for it may be gone
when it is done; then nobody has it, and it is closed again.
"""

from collections.abc import Callable, Iterator

from fanfold.push.hands import Hands
from fanfold.push.manifest import Manifest, decode, digest
from fanfold.push.store import Incoming, Store


class Opening:
    """One try to open a push.

    Args:
        encoded: the manifest, once it is wanted. known: of an earlier try, whose manifest was
            read already. judge: looks at a manifest before anything is opened for it.

    Attributes:
        key: digest of the manifest, once it is read.
    """

    def __init__(
        self,
        store: Store,
        hands: Hands,
        encoded: Callable[[], bytes] = bytes,
        known: "Opening | None" = None,
        judge: Callable[[Manifest], None] = lambda manifest: None,
    ) -> None:
        self.manifest: Manifest | None = known.manifest if known else None
        self.key: bytes = known.key if known else b""
        self._store, self._judge = store, judge
        self._opened: list[Incoming] = []  # by pop: one of two threads has it
        self._is_dropped = False
        self._work = hands.take(self._steps(encoded))

    @property
    def name(self) -> str:
        """What people call the push."""
        return self.manifest.name if self.manifest is not None else "?"

    def is_over(self) -> bool:
        """Whether it is open now.

        Raises:
            WireError: the manifest is malformed. StoreError: what open_push says.
        """
        return self._work.is_over()

    def take(self) -> Incoming:
        """The open push, once it is; the caller owns it."""
        return self._opened.pop()

    def drop(self) -> None:
        """Nobody wants it any more."""
        self._is_dropped = True
        self._close()

    def _steps(self, encoded: Callable[[], bytes]) -> Iterator[int]:
        if self.manifest is None:
            whole = encoded()
            manifest = decode(whole)
            self._judge(manifest)
            self.key = digest(manifest)
            self.manifest = manifest
            yield len(whole)
        if not self._is_dropped:
            self._opened.append(self._store.open_push(self.manifest, key=self.key))
        if self._is_dropped:
            self._close()

    def _close(self) -> None:
        try:
            self._opened.pop().close()
        except IndexError:  # not open yet, or closed by the other thread
            return
