"""The tables that GPUtil prints, to the character."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .GPUtil import GPU


def _percent(share: float) -> float:
    return share * 100


def _share(attr: str, name: str) -> dict[str, Any]:
    return {"attr": attr, "name": name, "suffix": "%", "transform": _percent, "precision": 0}


def _mebibytes(attr: str, name: str) -> dict[str, Any]:
    return {"attr": attr, "name": name, "suffix": "MB", "precision": 0}


_ID = {"attr": "id", "name": "ID"}
_SHORT = [[_ID, _share("load", "GPU"), _share("memoryUtil", "MEM")]]
_ALL = [
    [_ID, {"attr": "name", "name": "Name"}, {"attr": "serial", "name": "Serial"}, {"attr": "uuid", "name": "UUID"}],
    [
        {"attr": "temperature", "name": "GPU temp.", "suffix": "C", "precision": 0},
        _share("load", "GPU util."),
        _share("memoryUtil", "Memory util."),
    ],
    [
        _mebibytes("memoryTotal", "Memory total"),
        _mebibytes("memoryUsed", "Memory used"),
        _mebibytes("memoryFree", "Memory free"),
    ],
    [{"attr": "display_mode", "name": "Display mode"}, {"attr": "display_active", "name": "Display active"}],
]

_OLD_SHORT = (" ID  GPU  MEM", "-" * 14)
_OLD_ALL = (
    " ID | Name | Serial | UUID || GPU util. | Memory util. || Memory total | Memory used | Memory free "
    "|| Display mode | Display active |",
    "-" * 126,
)


def table(GPUs: list[GPU], all: bool, groups: list[list[dict[str, Any]]] | None, old: bool) -> Iterator[str]:
    """The lines of one table."""
    if old:
        return _old_all(GPUs) if all else _old_short(GPUs)
    return _lines(GPUs, _ALL if all else _SHORT if groups is None else groups)


def _lines(GPUs: list[GPU], groups: list[list[dict[str, Any]]]) -> Iterator[str]:
    header = ""
    rows = [""] * len(GPUs)
    for group in groups:
        for column in group:
            cells = [_cell(gpu, column) for gpu in GPUs]
            width = max(len(text) for text in [column["name"], *(text for text, _ in cells)])
            header += f"| {column['name']:{width}} "
            for i, (text, left) in enumerate(cells):
                suffix = str(column.get("suffix", ""))
                # A text stands at the left, its suffix at the right edge.
                padded = text[: len(text) - len(suffix)].ljust(width - len(suffix)) + suffix if left else text.rjust(width)
                rows[i] += f"| {padded} "
        header += "|"
        rows = [row + "|" for row in rows]
    yield header
    yield "-" * len(header)
    yield from rows


def _cell(gpu: GPU, column: dict[str, Any]) -> tuple[str, bool]:
    """The value with its suffix, and whether it is a text."""
    value = getattr(gpu, column["attr"])
    if "transform" in column:
        value = column["transform"](value)
    if isinstance(value, float):
        text = format(value, f".{column['precision']}f" if "precision" in column else "f")
    elif isinstance(value, int):
        text = format(value, "d")
    elif isinstance(value, str):
        text = value
    else:
        raise TypeError(f"Unhandled object type ({type(value)}) for attribute '{column['name']}'")
    return text + str(column.get("suffix", "")), isinstance(value, str)


def _old_short(GPUs: list[GPU]) -> Iterator[str]:
    yield from _OLD_SHORT
    for gpu in GPUs:
        yield f" {gpu.id:2d} {gpu.load * 100:3.0f}% {gpu.memoryUtil * 100:3.0f}%"


def _old_all(GPUs: list[GPU]) -> Iterator[str]:
    yield from _OLD_ALL
    for gpu in GPUs:
        yield (
            f" {gpu.id:2d} | {gpu.name}  | {gpu.serial} | {gpu.uuid} || {gpu.load * 100:3.0f}% | {gpu.memoryUtil * 100:3.0f}%"
            f" || {gpu.memoryTotal:.0f}MB | {gpu.memoryUsed:.0f}MB | {gpu.memoryFree:.0f}MB"
            f" || {gpu.display_mode} | {gpu.display_active}"
        )
