"""What an open push is made of."""

from typing import NamedTuple

from fanfold.push.layout import Layout
from fanfold.push.manifest import Manifest
from fanfold.push.staging import Staging
from fanfold.push.survey import Survey
from fanfold.push.target import Target


class Parts(NamedTuple):
    """What an open push is made of.

    key: digest of the manifest. is_fsynced: its end survives a power cut.
    is_rechecked: bytes are read back at the end and compared with each file's own BLAKE3.
    """

    manifest: Manifest
    key: bytes
    layout: Layout
    staging: Staging
    survey: Survey
    target: Target
    is_fsynced: bool
    is_rechecked: bool
