"""A worker of a pool: the program that runs in each of its processes.

It reads a task, computes, answers, and so on until it is told to stop. It imports next to nothing before it has said that it is
ready: a pool is to be up about as soon as bare interpreters are.
"""

from __future__ import annotations

import sys
from _socket import socket as _Socket

from . import _wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_FUNCTIONS_KEPT = 32
MAIN = "THOLE_MAIN_OF_POOL"  # package:path of the script, for children of a worker that import it (_main_again.py)


class MainReached(BaseException):
    """Ends the import of the main script in a worker where the script comes to start processes of its own."""


_main_path: str | None = None
_main_package: str | None = None
importing_main = False


def main(number: int) -> None:
    """Works for the pool at the other end of this descriptor, until it says stop."""
    connection, room = connected(number)
    worker = _Worker(connection, room)
    if worker.get_ready():
        worker.work()


def connected(number: int) -> tuple[_Socket, memoryview]:
    """The connection at this descriptor, after its first packet (:func:`tholepin._start.setup_part`), and room for the next
    ones."""
    connection = _Socket(-1, -1, -1, number)
    room = memoryview(bytearray(_wire.ROOM))
    first = _wire.receive(connection, room)
    if first is None:
        sys.exit(0)
    import marshal

    set_up(marshal.loads(first.code))
    return connection, room


def do_nothing_twice() -> None:
    """Called where something is claimed, submitted or started: in a worker that imports the main script, what stands above is
    all it needs."""
    if importing_main:
        raise MainReached


def stop_import_of_main() -> None:
    """The same where processes are started, which no import of multiprocessing's may do either."""
    do_nothing_twice()
    process = sys.modules.get("multiprocessing.process")
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        from .errors import Error

        raise Error(
            "a process of multiprocessing that still imports the main script cannot start others",
            hint='put what starts processes under if __name__ == "__main__":',
        )


def set_up(told: dict[str, Any]) -> None:
    global _main_path, _main_package
    sys.path[:] = told["path"]
    sys.argv[:] = told["argv"]
    _main_path, _main_package = told["main"], told["package"]


def import_main() -> None:
    """Makes the names of the pool's main script known here: runs it under another name, as far as it goes without starting
    processes, claiming or submitting."""
    global _main_path
    path, _main_path = _main_path, None
    if path is None:
        return
    import os
    import types
    from importlib.machinery import ModuleSpec

    module = types.ModuleType("__mp_main__")
    module.__spec__ = ModuleSpec("tholepin._main_again", None)
    os.environ[MAIN] = f"{_main_package or ''}:{path}"
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    run_main(path, _main_package, module.__dict__)


def run_main(path: str, package: str | None, names: dict[str, Any]) -> None:
    """Runs the script in these globals, as far as it goes without starting processes, claiming or submitting."""
    global importing_main
    names["__file__"], names["__package__"] = path, package
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    importing_main = True
    try:
        exec(code, names)
    except MainReached:
        pass
    finally:
        importing_main = False


class _Worker:
    def __init__(self, connection: _Socket, room: memoryview) -> None:
        self.connection = connection
        self.room = room
        self.functions: dict[int, Callable[..., Any]] = {}

    def get_ready(self) -> bool:
        """Runs the initializer, which is the first packet's function; False where it raised."""
        packet = _wire.receive(self.connection, self.room)
        if packet is None:
            return False
        if packet.body.nbytes:
            try:
                initializer, arguments = packet.load(loads)
                del packet
                initializer(*arguments)
            except BaseException as problem:
                self.answer(_wire.UNREADY, 0, _raised(problem))
                return False
        self.answer(_wire.READY, 0, b"")
        return True

    def answer(self, kind: int, number: int, body: bytes | _wire.Part) -> None:
        _wire.send(self.connection, kind, number, 0, b"", body)

    def work(self) -> None:
        connection, room = self.connection, self.room
        packet = _wire.receive(connection, room)
        # Not before there is work: other workers may still be starting, and want the CPU.
        from ._pickling import dumped

        while True:
            if packet is None or packet.kind == _wire.STOP:
                return
            number = packet.number
            try:
                body = dumped(self.compute(packet))
                kind = _wire.RESULT
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                kind, body = _wire.RAISED, _raised(problem)
            del packet
            _wire.send(connection, kind, number, 0, b"", body)
            del body
            packet = _wire.receive(connection, room)

    def compute(self, packet: _wire.Packet) -> Any:
        function = self.functions.get(packet.function)
        if function is None:
            function = loads(packet.code)
            while len(self.functions) >= _FUNCTIONS_KEPT:
                del self.functions[next(iter(self.functions))]
            self.functions[packet.function] = function
        kind, given = packet.kind, packet.load(loads)
        if kind == _wire.MAP:
            return [function(given[0])] if len(given) == 1 else [function(one) for one in given]
        if kind == _wire.STARMAP:
            return [function(*one) for one in given]
        arguments, named = given
        return function(*arguments, **named)


def loads(data: memoryview, **buffers: Any) -> Any:
    if _main_path is not None and b"_main__" in bytes(data):
        import_main()
    if not _unpickle:
        from _pickle import loads as from_pickle

        _unpickle.append(from_pickle)
    return _unpickle[0](data, **buffers)


_unpickle: list[Callable[..., Any]] = []


def _raised(problem: BaseException) -> bytes | _wire.Part:
    """The exception and its traceback as text. One that cannot be pickled goes as an Error that tells of it."""
    import traceback

    from ._pickling import dumped

    text = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
    try:
        body = dumped((problem, text))
        if type(body) is bytes:
            # Many an exception is pickled readily and cannot be loaded: its __init__ wants more than it keeps.
            loads(memoryview(body))
        return body
    except Exception:
        from .errors import Error

        return dumped((Error(f"{type(problem).__name__}: {problem}", hint="the exception itself cannot be pickled"), text))

