"""The words in which times, sizes and GPUs may be said: numbers, or text as on the command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Union

from . import errors

if TYPE_CHECKING:
    import datetime

    # Seconds, "90s", "1h30m" or a timedelta.
    Duration = Union[int, float, str, datetime.timedelta]

# How a GPU may be named: its index, "0:1" for an instance of it, a UUID or a unique beginning of one, a PCI address.
Name = Union[int, str]

# MiB, or "20G", "512MiB"; all units are binary.
Size = Union[int, str]

# How processes are bound: a mode ("node", "exclusive", "core:4", "none" …), or a dict with "mode", "mem", "smt", "nic", "threads",
# "reserve", "lend", "balanced", "strict": the words of the command line, docs/binding.md.
Binding = Union[str, Mapping[str, Any]]

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_FOR_EVER_S = 1e12  # 30,000 years
_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}


def seconds(duration: Duration, what: str = "time") -> float:
    """The seconds of a duration.

    >>> seconds("1h30m"), seconds(2.5)
    (5400.0, 2.5)
    """
    if isinstance(duration, (int, float)) and not isinstance(duration, bool):
        value = float(duration)
    elif isinstance(duration, str):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]|$)", duration)
        if not parts or "".join(n + unit for n, unit in parts) != duration or (len(parts) > 1 and parts[-1][1] == ""):
            raise _mistake(what, duration, 'seconds, or a text such as "90s", "30m", "1h30m"')
        value = sum(float(n) * _SECONDS[unit] for n, unit in parts)
    elif hasattr(duration, "total_seconds"):
        value = duration.total_seconds()
    else:
        raise _mistake(what, duration, "seconds, a text or a timedelta")
    if not value >= 0:
        raise _mistake(what, duration, "no negative time")
    return value


def milliseconds(wait: Duration) -> int:
    """A time to wait as thole.h has it; -1 is for ever.

    >>> milliseconds("1m"), milliseconds(0.5), milliseconds(float("inf"))
    (60000, 500, -1)
    """
    value = seconds(wait, "wait")
    return -1 if value > _FOR_EVER_S else round(value * 1000)


def mebibytes(size: Size, what: str = "memory") -> int:
    """The MiB of a size, rounded up.

    >>> mebibytes("20G"), mebibytes(512), mebibytes("1.5GiB")
    (20480, 512, 1536)
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)(?:i?b)?", size.strip().lower()) if isinstance(size, str) else None
    if not found:
        raise _mistake(what, size, 'MiB, or a text such as "20G", "512MiB"')
    mib = float(found[1]) * _MIB[found[2]]
    return int(-(-mib // 1))


def _mistake(what: str, value: object, expected: str) -> errors.Error:
    return errors.Error(f"{what}: {value!r} is not known; expected {expected}", code=64)


def cpus(text: str | None) -> frozenset[int]:
    """The CPUs of a list as ``taskset -c`` takes it; none for None.

    >>> sorted(cpus("0-2,8-12:2"))
    [0, 1, 2, 8, 10, 12]
    """
    found: set[int] = set()
    for part in (text or "").strip().split(","):
        if part:
            span, _, step = part.partition(":")
            first, _, last = span.partition("-")
            found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    return frozenset(found)


def cpu_list(cpus: Iterable[int]) -> str:
    """The list of some CPUs, as the kernel and ``taskset -c`` take it.

    >>> cpu_list([16, 0, 1, 1])
    '0,1,16'
    """
    return ",".join(map(str, sorted(set(cpus))))


def binding(bind: Binding) -> dict[str, Any]:
    """The JSON of a binding: a mode alone, or the words of a dict.

    >>> binding("node"), binding({"mode": "core:4", "smt": "one"})
    ({'mode': 'node'}, {'mode': 'core:4', 'smt': 'one'})
    """
    return {"mode": bind} if isinstance(bind, str) else dict(bind)


def names(words: Iterable[Name] | Name) -> list[str]:
    """GPUs, jobs or others, each by a word; one alone need not be in a list."""
    return [str(word) for word in ([words] if isinstance(words, (int, str)) else words)]
