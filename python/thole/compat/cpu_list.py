"""CPU lists as text, "0-3,16-19", as the kernel and thole write them."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> list[int]:
    """The CPUs of a list, ascending.

    >>> parse("0-2,16")
    [0, 1, 2, 16]
    """
    cpus: set[int] = set()
    for piece in text.replace("\n", "").split(","):
        first, _, last = piece.strip().partition("-")
        if first:
            cpus.update(range(int(first), int(last or first) + 1))
    return sorted(cpus)


def text(cpus: Iterable[int]) -> str:
    """The list of some CPUs.

    >>> text([16, 0, 1, 2])
    '0,1,2,16'
    """
    return ",".join(map(str, sorted(cpus)))
