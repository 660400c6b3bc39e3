"""The words in which times, sizes and GPUs may be said: numbers, or text as on the command line."""

from __future__ import annotations

import json
import math
import operator
import os
import re
from typing import TYPE_CHECKING, Any, Iterable, Literal, Mapping, Union, get_args

from . import errors

if TYPE_CHECKING:
    import datetime

    # Seconds, "90s", "1h30m" or a timedelta.
    Duration = Union[int, float, str, datetime.timedelta]

# How a GPU may be named: its index, "0:1" for an instance of it, a UUID or a unique beginning of one, a PCI address.
Name = Union[int, str]

# MiB, or "20G", "512MiB"; all units are binary.
Size = Union[int, str]

# How processes are bound: a mode ("node", "exclusive", "core:4", "none" …), or a dict with "mode", "mem", "smt", "nic",
# "threads", "reserve", "lend", "balanced", "strict": the words of the command line, docs/binding.md.
Binding = Union[str, Mapping[str, Any]]

Pick = Literal["pack", "first", "last", "random", "load", "memory"]
Shape = Literal["collective", "pairwise", "independent"]
ShareWith = Literal["user", "any"]
Beside = Literal["none", "mine", "any"]
Ids = Literal["auto", "uuid", "index"]
Form = Literal["text", "svg", "matrix"]
CHOICES = {
    "pick": get_args(Pick),
    "shape": get_args(Shape),
    "share_with": get_args(ShareWith),
    "beside": get_args(Beside),
    "ids": get_args(Ids),
    "form": get_args(Form),
}

_SECONDS = {"": 1.0, "ms": 0.001} | {
    word: number
    for number, words in (
        (1.0, "s sec secs second seconds"),
        (60.0, "m min mins minute minutes"),
        (3600.0, "h hr hrs hour hours"),
        (86400.0, "d day days"),
    )
    for word in words.split()
}
_MOST = 65536  # of GPUs and of ranks
_FOR_EVER_S = 1e12  # 30,000 years
_LONGEST_S = 2e6  # 23 days: what poll() can count in milliseconds
_LARGEST_MIB = 2**40
_SIGNALS = 64
_MIB = {"": 1.0, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}


def own(found: Any) -> Any:
    """A number of another library, such as numpy's, as Python's own; anything else as it is.

    >>> import decimal
    >>> own(decimal.Decimal("0.5")), own(3), own("3")
    (0.5, 3, '3')
    """
    if isinstance(found, (int, float, str, bytes)):
        return found
    try:
        if type(found).__name__ in ("bool", "bool_") and hasattr(found, "dtype"):
            return bool(found)
        if hasattr(found, "__index__"):
            return operator.index(found)
    except (TypeError, ValueError):  # numpy's arrays have the method, and most of them no single number
        pass
    several_or_time = hasattr(found, "__iter__") or "time" in type(found).__name__
    return found if several_or_time or not hasattr(found, "__float__") else float(found)


def seconds(duration: Duration, what: str = "time") -> float:
    """The seconds of a duration.

    >>> seconds("1h30m"), seconds("90min"), seconds(2.5), seconds("200ms")
    (5400.0, 5400.0, 2.5, 0.2)
    """
    duration = own(duration)
    if isinstance(duration, (int, float)) and not isinstance(duration, bool):
        value = max(-1.0, min(duration, math.inf)) if abs(duration) > _FOR_EVER_S else float(duration)
    elif isinstance(duration, str):
        parts = re.findall(r"(\d+(?:\.\d+)?)([a-z]+|$)", duration)
        if not all(unit in _SECONDS for _, unit in parts):
            raise _mistake(what, duration, 'seconds, or a text such as "90s", "30m", "1h30m"')
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
    size = own(size)
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= _LARGEST_MIB:
        return size
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?)(?:i?b)?", size.strip().lower()) if isinstance(size, str) else None
    if not found:
        raise _mistake(what, size, 'MiB, or a text such as "20G", "512MiB"')
    mib = float(found[1]) * _MIB[found[2]]
    if mib > _LARGEST_MIB:
        raise _mistake(what, size, f"at most {_LARGEST_MIB} MiB")
    return int(-(-mib // 1))


def _mistake(what: str, value: object, expected: str) -> errors.Error:
    return errors.WrongRequest(f"{what}: expected {expected}, got {value!r}")


def _wrong_type(what: str, value: object, expected: str) -> errors.Error:
    return errors.WrongType(f"{what}: expected {expected}, got {value!r}")


def iterable(values: object, what: str) -> None:
    """Raises WrongType unless one can go over it."""
    if not hasattr(values, "__iter__") and not hasattr(values, "__getitem__"):
        raise _wrong_type(what, values, "what can be iterated over")


def listed(values: Any, what: str) -> list[Any]:
    """The members of what must be a list or the like of it.

    >>> listed(range(2), "on")
    [0, 1]
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise _wrong_type(what, values, "a list")
    return list(values)


def function(found: object, what: str) -> None:
    """Raises WrongType unless it is one, or None."""
    if found is not None and not callable(found):
        raise _wrong_type(what, found, "a function")


def one_of(found: object, kind: type, what: str) -> None:
    """Raises WrongType unless it is of this class of ours, or None."""
    if found is not None:
        this_one(found, kind, what)


def this_one(found: object, kind: type, what: str) -> None:
    """Raises WrongType unless it is of this class of ours."""
    if not isinstance(found, kind):
        raise _wrong_type(what, found, f"a {kind.__name__}")


def mapping(found: Any, what: str) -> dict[str, Any]:
    """The entries of a dict with texts as keys; none for None."""
    if found is not None and not (isinstance(found, Mapping) and all(isinstance(key, str) for key in found)):
        raise _wrong_type(what, found, "a dict with texts as keys")
    return dict(found or {})


def variables(found: Any, what: str) -> dict[str, str | None]:
    """Variables of the environment; None as a value removes one."""
    values = mapping(found, what)
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise _wrong_type(what, value, f"a text for {name}, or None")
        if not name or "=" in name or "\0" in name + (value or ""):
            raise _mistake(what, {name: value}, "names and values that an environment can have")
    return values


def path(found: Any, what: str) -> Any:
    """A file's or a directory's path."""
    if not isinstance(found, (str, bytes, os.PathLike)):
        raise _wrong_type(what, found, "a path")
    if b"\0" in os.fsencode(found):
        raise _mistake(what, found, "a path")
    return found


def count(number: Any, what: str, least: int = 1) -> Any:
    """A whole number, ``least`` or more, or None."""
    number = own(number)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or not least <= number < 2**31):
        raise _mistake(what, number, f"a number of {least} or more")
    return number


def timeout(duration: Any, what: str = "timeout") -> Any:
    """Seconds for which is waited, as all of Python has them: None is for ever, and less than 0 is 0."""
    duration = own(duration)
    if duration is not None and (isinstance(duration, bool) or not isinstance(duration, (int, float)) or duration != duration):
        raise _wrong_type(what, duration, "seconds, or None")
    return None if duration is None or duration > _LONGEST_S else duration


def patience(duration: Any, what: str = "patience") -> Any:
    """A number of seconds."""
    limited = timeout(duration, what)
    if limited is None or limited < 0:
        raise _mistake(what, duration, "seconds, 0 or more")
    return limited


def signal_number(number: Any, what: str) -> int:
    """A signal's number."""
    number = own(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _SIGNALS:
        raise _mistake(what, number, f"a signal, 0 to {_SIGNALS}")
    return number


def value(found: Any, what: str) -> str:
    """One that a command line can have: a text, a number, a path.

    >>> import decimal
    >>> value(0.5, "lr"), value(decimal.Decimal("0.10"), "lr")
    ('0.5', '0.10')
    """
    number = own(found)
    if not isinstance(number, (str, int, float, os.PathLike)):
        raise _wrong_type(what, found, "a text or a number")
    said = os.fsdecode(found) if isinstance(found, os.PathLike) else str(found if _is_number(str(found)) else number)
    try:
        os.fsencode(said)
    except UnicodeEncodeError:
        raise _mistake(what, found, "a text of whole characters") from None
    if "\0" in said:
        raise _mistake(what, found, "a text without null characters")
    return said


def _is_number(said: str) -> bool:
    # numpy's numbers of less than 64 bits know how to say themselves: 0.1, and not 0.10000000149011612.
    try:
        return float(said) == float(said)
    except ValueError:
        return False


def plain(value: Any, what: str) -> Any:
    """What JSON can hold; what it should be, the library knows."""
    try:
        told = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_own_number)
        told.encode()
    except (TypeError, ValueError, RecursionError):
        raise _wrong_type(what, value, "numbers, texts, lists and dicts of them") from None
    return json.loads(told)


def _own_number(found: Any) -> Any:
    if own(found) is found:
        raise TypeError
    return own(found)


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


def binding(bind: Binding, what: str = "bind") -> dict[str, Any]:
    """The JSON of a binding: a mode alone, or the words of a dict.

    >>> binding("node"), binding({"mode": "core:4", "smt": "one"})
    ({'mode': 'node'}, {'mode': 'core:4', 'smt': 'one'})
    """
    if not isinstance(bind, (str, Mapping)):
        raise _wrong_type(what, bind, "a mode, or a dict of words")
    return {"mode": text(bind, what)} if isinstance(bind, str) else dict(plain(mapping(bind, what), what))


def names(words: Iterable[Name] | Name, what: str) -> list[str]:
    """GPUs, jobs or others, each by a word; one alone need not be in a list.

    >>> names(3, "after"), names(["sweep", 4], "after")
    (['3'], ['sweep', '4'])
    """
    one = own(words)
    found = [one] if isinstance(one, (int, str)) else [own(word) for word in listed(words, what)]
    for word in found:
        if isinstance(word, bool) or not isinstance(word, (int, str)):
            raise _wrong_type(what, word, "a name or a number")
        if word == "":
            raise _mistake(what, word, "a name or a number")
        text(str(word), what)
    return [str(word) for word in found]


def gpu_numbers(words: Iterable[Name] | Name, what: str) -> list[Name]:
    """GPUs by their numbers, as a list, alone, or as the command line takes them.

    >>> gpu_numbers("0-1", "on"), gpu_numbers(3, "on"), gpu_numbers([2, "5"], "on")
    ([0, 1], [3], [2, 5])
    """
    return [int(word) if word.isdecimal() else word for word in gpu_names(words, what)]


def gpu_names(words: Iterable[Name] | Name, what: str) -> list[str]:
    """GPUs, as a list, alone, or as the command line takes them.

    >>> gpu_names("0,2-3", "on"), gpu_names([1, "GPU-5d"], "on")
    (['0', '2', '3'], ['1', 'GPU-5d'])
    """
    if isinstance(words, (bytes, bytearray)):
        raise _mistake(what, words, "GPUs by their numbers or names")
    listed: Any = words.split(",") if isinstance(words, str) else words
    if isinstance(words, Mapping):
        raise _mistake(what, words, "GPUs by their numbers or names")
    if not hasattr(listed, "__iter__"):
        listed = [listed]
    found = []
    for word in map(own, listed):
        if isinstance(word, bool) or not (isinstance(word, str) and word.strip() or isinstance(word, int) and word >= 0):
            raise _mistake(what, word if isinstance(word, (int, float, str)) else words, "GPUs by their numbers or names")
        found += _range(text(str(word).strip(), what), what)
    return found


def _range(word: str, what: str) -> list[str]:
    """The numbers of "2-3"; any other word is one."""
    ends = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", word)
    if not ends:
        return [word]
    first, last = int(ends[1]), int(ends[2])
    if last < first or last - first >= _MOST:
        raise _mistake(what, word, "a range such as 0-3")
    return [str(number) for number in range(first, last + 1)]


def whole(number: int, what: str) -> int:
    """A count, 0 or more.

    >>> whole(2, "gpus")
    2
    """
    number = own(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise _mistake(what, number, "a whole number")
    if number < 0:
        raise _mistake(what, number, "0 or more")
    if number > _MOST:
        raise _mistake(what, number, f"at most {_MOST}")
    return number


def percent(number: float, what: str) -> float:
    """A share of 100."""
    number = own(number)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number <= 100:
        raise _mistake(what, number, "percent, 0 to 100")
    return number


def text(word: str, what: str) -> str:
    """A text that can be told to others: half a character, as of a file's name that is no UTF-8, cannot."""
    if not isinstance(word, str):
        raise _mistake(what, word, "a text")
    try:
        word.encode()
    except UnicodeEncodeError:
        raise _mistake(what, word, "a text of whole characters") from None
    if "\0" in word:
        raise _mistake(what, word, "a text of whole characters")
    return word


def choice(word: str, what: str) -> str:
    """One of the words that there are for it.

    >>> choice("first", "pick")
    'first'
    """
    among = CHOICES[what]
    if word not in among:
        raise _mistake(what, word, ", ".join(among[:-1]) + " or " + among[-1])
    return word


def flag(value: bool, what: str) -> bool:
    """Yes or no."""
    value = own(value)
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise _mistake(what, value, "True or False")
    return bool(value)
