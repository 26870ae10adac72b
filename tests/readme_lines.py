"""Commands that README.md shows, and the shape of what they print."""

import re
from typing import NamedTuple

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(fanfold [a-z-]+ [^`]+|fanfold (?:gap|sim-bench|demo))`")
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )?(?:fanfold|torchrun) ")
UNIT = r"(?: ?(?:ps|ns|us|ms|s|B|kB|MB|GB|MiB|M|k|[kMG]?bit/s)\b)?"
ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b")
NUMBER = re.compile(rf"\d[\d,]*(?:\.\d+)?{UNIT}")


class Block(NamedTuple):
    """A fenced block: its commands, or lines that were printed."""

    commands: list[str]
    printed: list[str]


def blocks_of(text: str) -> list[Block]:
    """Fenced blocks without a language."""
    found = []
    for language, body in FENCE.findall(text):
        lines = [line for line in body.splitlines() if line.strip()]
        if language:
            continue
        commands = [line.split("  #")[0].strip() for line in lines if COMMAND.match(line)]
        found.append(Block(commands, [] if commands else lines))
    return found


def commands_of(text: str) -> list[str]:
    """Every command with arguments, in blocks and in sentences, as often as it stands there."""
    in_blocks = [command for block in blocks_of(text) for command in block.commands]
    return in_blocks + INLINE.findall(FENCE.sub("", text))


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, units, ids, widths."""
    plain = NUMBER.sub("N", ID.sub("ID", line))
    return " ".join(re.sub("─+", "─", plain).split())


def lacking(printed: list[str], output: str) -> list[str]:
    """Lines whose shape does not come in the output, in their order; ``...`` stands for any."""
    shapes = iter(shape(line) for line in output.splitlines())
    wanted = [line for line in printed if not line.strip().startswith("...")]
    return [line for line in wanted if not any(shape(line) == each for each in shapes)]
