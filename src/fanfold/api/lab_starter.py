"""The process that starts a lab for a program: ``python -m fanfold.api.lab_starter JSON``.

It prints lines of JSON: ``say`` while it works, at last ``up`` or ``error``.
"""

import json
import sys
from pathlib import Path
from typing import Any

from fanfold.api.labs import pick_fabric, start_lab
from fanfold.api.tenants import with_tenants
from fanfold.errors import ConfigError, EnvironmentLack
from fanfold.live.lab import Lab
from fanfold.topo.fabric_file import load_fabric


def main(asked: dict[str, Any]) -> None:
    """Start a lab and tell how that went."""

    def say(text: str) -> None:
        if text:
            _print({"say": text})

    try:
        name, config = asked["name"], asked["config"]
        fabric = load_fabric(Path(config)) if config else pick_fabric(name, *asked["shape"])
        fabric = with_tenants(fabric, asked.get("tenants", ()))
        flags = {word: asked[word] for word in ("has_rings", "fsync", "has_keys")}
        _print({"up": start_lab(Lab(name), fabric, **flags, say=say)})
    except ConfigError as error:
        got = error.got if isinstance(error.got, int) else str(error.got)
        _print({"error": "ConfigError", "args": [error.field, got, error.allowed]})
    except EnvironmentLack as error:
        _print({"error": "EnvironmentLack", "args": [str(error)]})


def _print(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
