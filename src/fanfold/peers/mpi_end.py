"""One rank of a broadcast of a file by Open MPI, by the C interface of its library.

    mpirun ... python mpi_end.py FOLDER... FILE

Rank 0 reads FILE; rank r writes a file of that name into the folder of r, counted from 1. It
uses the standard library only.
"""

import mmap
import os
import sys
from ctypes import CDLL, RTLD_GLOBAL, addressof, byref, c_char, c_int, c_longlong, c_void_p
from pathlib import Path

LIBRARY = "libmpi.so.40"
MOST = 1 << 30
"""Bytes of one call: a count is an int."""


def main(folders: list[str], path: Path) -> None:
    """Take part; the file is mapped, so that nothing is copied beside the broadcast."""
    mpi = CDLL(LIBRARY, RTLD_GLOBAL)
    world = _handle(mpi, "ompi_mpi_comm_world")
    octet, wide = _handle(mpi, "ompi_mpi_byte"), _handle(mpi, "ompi_mpi_long_long_int")
    mpi.MPI_Init(None, None)
    rank = c_int()
    mpi.MPI_Comm_rank(world, byref(rank))
    size = c_longlong(path.stat().st_size if rank.value == 0 else 0)
    mpi.MPI_Bcast(byref(size), 1, wide, 0, world)
    if rank.value:
        path = Path(folders[rank.value - 1]) / path.name
        path.touch()
        os.truncate(path, size.value)
    kind = mmap.ACCESS_COPY if rank.value == 0 else mmap.ACCESS_WRITE
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=kind) as room:
        for at in range(0, size.value, MOST):
            part = c_char.from_buffer(room, at)
            mpi.MPI_Bcast(byref(part), min(MOST, size.value - at), octet, 0, world)
            del part
    mpi.MPI_Finalize()


def _handle(mpi: CDLL, name: str) -> c_void_p:
    """A communicator or type, which Open MPI has as the address of a variable."""
    return c_void_p(addressof(c_char.in_dll(mpi, name)))


if __name__ == "__main__":
    main(sys.argv[1:-1], Path(sys.argv[-1]))
