"""`fanfold dissector`: where the Wireshark dissector lies."""

from pathlib import Path

from fanfold import wire

LUA_PATH = Path(wire.__file__).with_name("fanfold.lua")


def dissector() -> None:
    """Print the path of the Lua dissector, for tshark -X lua_script:PATH."""
    print(LUA_PATH)
