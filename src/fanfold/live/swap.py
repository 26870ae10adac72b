"""A node's forwarding tables, replaced while it runs.

A new table comes whole, as data: for each BFER the neighbours that its BIFTs lead to. It is
checked before anything changes, and written between two passes of the node's loop, so that no
packet meets half of it. Its version is above the one that is in use.

    {"do": "table", "version": 2, "rows": [{"bfr_id": 4, "nbrs": ["spine1", "spine2"]}, ...]}

``nbrs`` take turns over the BIFTs of a set identifier, so there are as many of them as divide
``n_ecmp``; none: the BFER cannot be reached. The node itself is the neighbour of its own bit.
``links`` may come with it: what each link of the fabric file costs, 0 where no path uses it;
tables without links that fail are then made from that.
"""

from typing import Annotated, Any

import msgspec
import numpy as np

from fanfold.core.link_states import LinkSet
from fanfold.errors import ConfigError
from fanfold.kernels.tables import NULL_NBR, WORD_BITS, Bifts
from fanfold.live.backups import Backups
from fanfold.toml_table import read_table
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_rules import MAX_VERSION, MAX_WEIGHT
from fanfold.wire.bitstring import bift_id, bsl_of_bits, place

FIELD = "table"


class TableRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One BFER, and who is next on the way to it in each BIFT."""

    bfr_id: int
    nbrs: tuple[str, ...]


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole table as a command brings it."""

    version: Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)]
    rows: tuple[TableRow, ...]
    links: tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_WEIGHT)], ...] = ()


class Swap:
    """Tables of one node; ``bifts`` are the arrays that its kernels read.

    While links are down, tables without them stand in the place of those that were given.
    What neighbours say is believed of BFERs behind them by any shortest path of the fabric, by
    the table in use, and by the one before, whose packets are still under way.
    """

    def __init__(self, fabric: Fabric, name: str, bifts: Bifts) -> None:
        self._fabric, self._name, self._bifts = fabric, name, bifts
        self.version: int = fabric.version
        self._of_paths = bifts.behind.copy()
        self._of_table = np.zeros_like(bifts.behind)
        self._given = bifts._replace(
            nbr_of=bifts.nbr_of.copy(), f_bm=bifts.f_bm.copy(), behind=self._of_table
        )
        self._backups = Backups(fabric, name)
        self.failed: LinkSet = frozenset()
        """Links that the tables in use do without."""

    def take(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put a new table in the place of the old one.

        Raises:
            ConfigError: its first fault, by field; the old table stays.
        """
        given = {key: value for key, value in request.items() if key != "do"}
        table = read_table(Table, given, f"{FIELD}.")
        if table.version <= self.version:
            allowed = f"above {self.version}, the version in use"
            raise ConfigError(f"{FIELD}.version", table.version, allowed)
        nbr_of = np.full_like(self._bifts.nbr_of, NULL_NBR)
        f_bm, behind = np.zeros_like(self._bifts.f_bm), np.zeros_like(self._bifts.behind)
        bsl = bsl_of_bits(self._fabric.bitstring_bits)
        sets = {bift: t for t, bift in enumerate(self._bifts.ids.tolist())}
        for bfr_id, ports in self._ports(table.rows).items():
            si, position = place(bfr_id, bsl)
            word, k = divmod(position - 1, WORD_BITS)
            owner = self._fabric.by_bfr_id[bfr_id].name
            t = sets.get(bift_id(bsl, self._fabric.sub_domain_of(owner), si), NULL_NBR)
            if t == NULL_NBR:
                continue  # of another tenant than this host
            first, n = int(self._bifts.first[t]), int(self._bifts.n_ecmp[t])
            for e in range(n if ports else 0):
                nbr_of[first + e, position - 1] = ports[e % len(ports)]
            behind[t, ports, word] |= np.uint64(1 << k)
        _fill_masks(nbr_of, f_bm)
        if table.links and len(table.links) != len(self._fabric.links):
            n = len(self._fabric.links)
            raise ConfigError(f"{FIELD}.links", len(table.links), f"{n}, one for each link")
        self._given = self._bifts._replace(nbr_of=nbr_of, f_bm=f_bm, behind=behind)
        self.version = table.version
        if table.links:
            self._backups.rebase(table.links)
        self._put(self._backups.tables(self.failed) if self.failed else self._given)
        return {"ok": True, "version": self.version}

    def without(self, failed: LinkSet) -> None:
        """Do without these links from now on, and with all others."""
        self.failed = failed
        self._put(self._backups.tables(failed) if failed else self._given)

    def prepare(self) -> bool:
        """Make a table ahead that may be needed; False: there is none to make."""
        return self._backups.prepare()

    def _put(self, new: Bifts) -> None:
        """Let kernels read these from the next pass on."""
        self._bifts.behind[:] = self._of_paths | self._of_table | new.behind
        self._bifts.nbr_of[:], self._bifts.f_bm[:] = new.nbr_of, new.f_bm
        self._of_table = new.behind

    def _ports(self, rows: tuple[TableRow, ...]) -> dict[int, list[int]]:
        """Ports of each BFER, in turns; every BFER has its row."""
        found: dict[int, list[int]] = {}
        known = self._fabric.by_bfr_id
        for i, row in enumerate(rows):
            where = f"{FIELD}.rows[{i}]"
            if row.bfr_id not in known:
                allowed = "the BFR-id of a node of the fabric"
                raise ConfigError(f"{where}.bfr_id", row.bfr_id, allowed)
            if row.bfr_id in found:
                first = list(found).index(row.bfr_id)
                raise ConfigError(
                    f"{where}.bfr_id", row.bfr_id, f"one that rows[{first}] has not"
                )
            found[row.bfr_id] = self._ports_of(row, where)
        if missing := known.keys() - found.keys():
            got = f"no row of BFR-id {min(missing)}"
            raise ConfigError(f"{FIELD}.rows", got, "one for each BFR-id of the fabric")
        return found

    def _ports_of(self, row: TableRow, where: str) -> list[int]:
        me, near = self._name, self._fabric.neighbours[self._name]
        is_mine = self._fabric.by_bfr_id[row.bfr_id].name == me
        allowed = (me,) if is_mine else near
        n_ecmp = self._fabric.n_ecmp
        if (row.nbrs and n_ecmp % len(row.nbrs)) or (is_mine and not row.nbrs):
            fits = ", ".join(str(n) for n in range(1, n_ecmp + 1) if n_ecmp % n == 0)
            raise ConfigError(f"{where}.nbrs", f"{len(row.nbrs)} of them", f"{fits} of them")
        for i, name in enumerate(row.nbrs):
            if name not in allowed:
                raise ConfigError(f"{where}.nbrs[{i}]", name, ", ".join(allowed))
        return [self._fabric.port_to(me, name) for name in row.nbrs]


def _fill_masks(nbr_of: Any, f_bm: Any) -> None:
    """F-BM of each neighbour: the OR of its rows, RFC 8279 section 6.4."""
    table, bit = np.indices(nbr_of.shape)
    mask = np.left_shift(np.uint64(1), (bit % WORD_BITS).astype(np.uint64))
    np.bitwise_or.at(f_bm, (table, nbr_of + 1, bit // WORD_BITS), mask)
