"""The peers of `fanfold peers`, in the order of its table."""

from fanfold.peers.aria2 import Aria2
from fanfold.peers.norm import Norm
from fanfold.peers.openmpi import OpenMpi
from fanfold.peers.pushed import Pushed
from fanfold.peers.tcp import Tcp
from fanfold.peers.transfer import Peer
from fanfold.peers.udpcast import Udpcast
from fanfold.peers.uftp import Uftp

PEERS: tuple[Peer, ...] = (
    Pushed(),
    Uftp(),
    Udpcast(),
    Norm(),
    OpenMpi(),
    Aria2(),
    Tcp(),
)
