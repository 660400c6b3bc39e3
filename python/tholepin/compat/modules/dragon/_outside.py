"""What Dragon has and this drop-in has not: an ImportError that says so, in place of a name that is merely unknown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Container, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_PACKAGE = __name__.rpartition(".")[0]


def missing(name: str) -> ImportError:
    """What importing this name raises."""
    return ImportError(
        f"{name} is not in thole's drop-in, which is Dragon's machine, pool, process, process_group, queue, event, barrier, "
        "lock and Policy on one host (docs/compat.md); it is in dragonhpc: pip install dragonhpc, and run the program by its "
        "command dragon, without thole compat",
        name=name,
    )


def refuse(module: str, name: str, known: Container[str]) -> NoReturn:
    """For a module's ``__getattr__``: raises for a name that is not there, and for those that Dragon has why."""
    if name in known:
        raise missing(f"{module}.{name}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class _Last:
    """The finder behind all others: it is asked for modules of this package that nobody has."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name.startswith(_PACKAGE + ".") and not name.endswith(".__main__"):
            raise missing(name)


sys.meta_path.append(_Last)
