"""The program that runs a function as a process: what Process and ProcessGroup start for one.

It ends with status 0, with 1 after an exception, and as ``sys.exit`` says.
"""

from __future__ import annotations

import sys

from . import _wire, _worker
from ._aside import Aside


def main(number: int) -> None:
    """Calls the function that lies in this socket."""
    connection, room = _worker.connected(number)
    packet = _wire.receive(connection, room)
    connection.close()
    if packet is None:
        return
    told = packet

    def call() -> None:
        try:
            function, arguments, named = told.load(_worker.loads)
            function(*arguments, **named)
        except Exception:
            import traceback

            with Aside():
                sys.stderr.write("*** Exception Occurred in User-Provided Code ***\n" + traceback.format_exc())
            sys.exit(1)

    _worker.with_main(call)
