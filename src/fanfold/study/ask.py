"""What a study is asked for, and what one point of it is made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from fanfold.study.costs import Prices
from fanfold.study.keys import Key
from fanfold.study.result import Value
from fanfold.work.model import Model
from fanfold.work.model_config import check_no_count, load_model
from fanfold.work.parallel import Degrees
from fanfold.work.presets import preset_of

ALL = "all"
LEAST_GPUS, MOST_GPUS = 2, 65_536
H100_TFLOPS = (
    "400",
    "989 TFLOP/s of dense BF16 (data sheet of the H100 SXM), of which 40 % are reached "
    "(The Llama 3 Herd of Models, table 4: 38 to 43 %)",
)
H100_MEMORY = ("3350GB", "bandwidth of HBM3 of the H100 SXM, data sheet")

SHARED_KEYS: tuple[Key, ...] = (
    Key("gpus", "count", "", "flag --gpus", LEAST_GPUS, MOST_GPUS),
    Key("topology", "text", "", "chosen by the number of GPUs"),
    Key("rate", "rate", "400Gbps", "one 400 Gbit/s port for each GPU, as in DGX H100"),
    Key("loss", "share", "0", "links in order lose next to nothing"),
    Key("model", "text", "", "flag --model"),
    Key("parameters", "text", "", "of a model whose family is not known: by its files"),
    Key(
        "ecmp", "count", "", "BIFTs of a router: as many as it has equal paths, up to 32", 1, 64
    ),
    Key(
        "fidelity",
        "word",
        "auto",
        "the finest that the work allows",
        words=("auto", "packet", "train", "flow"),
    ),
    Key(
        "link_keys",
        "word",
        "off",
        "one owner's links; required: packets of fans by BIER and of sums are 24 octets longer",
        words=("off", "required"),
    ),
)
"""Keys of every study."""
TFLOPS = Key("tflops", "count", *H100_TFLOPS, 1, 10**9)
MEMORY_RATE = Key("memory", "size", *H100_MEMORY)


class StudyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One study. given: values of keys by flags, as text. sweep: key and values, in order."""

    kind: str
    given: dict[str, str]
    schemes: tuple[str, ...] = (ALL,)
    sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    seed: int = 1
    prices: tuple[int, int, int] = (0, 0, 0)

    @property
    def paid(self) -> Prices:
        """Prices by name."""
        return Prices(*self.prices)


class Setting(NamedTuple):
    """One point, read: the model, its degrees, values of all keys, seed."""

    model: Model
    degrees: Degrees
    values: Mapping[str, Value]
    seed: int

    def number(self, key: str, otherwise: int = 0) -> int:
        """Value of a key that holds a number; ``otherwise`` where it was left open."""
        value = self.values[key]
        return value if isinstance(value, int) else otherwise

    def word(self, key: str) -> str:
        """Value of a key that holds a word."""
        return str(self.values[key])

    @property
    def gpus(self) -> int:
        """GPUs of this point."""
        return self.number("gpus")


def model_of(text: str, parameters: int = 0) -> tuple[Model, Degrees | None]:
    """A preset with its degrees, or a model of a config.json, or of a folder with one.

    Raises:
        ConfigError: no such preset, or a file that is none.
    """
    if text.endswith(".json") or Path(text).is_dir():
        return load_model(Path(text), parameters), None
    check_no_count(parameters)
    preset = preset_of(text)
    return preset.model, preset.degrees
