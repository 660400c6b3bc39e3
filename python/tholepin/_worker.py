"""A worker of a pool: the program that runs in each of its processes.

It reads a task, computes, answers, and so on until it is told to stop. It imports next to nothing before it has said that it is
ready: a pool is to be up about as soon as bare interpreters are.

How the main script is imported. A script without a main guard makes its pool in the course of it, and a worker must go no
further than that line. It stays there: the call that would start processes does the worker's work instead, to the end of the
process. An exception would go through whatever stands around that line, and ``finally``, ``except`` and the ends of ``with``
blocks would run in every worker: files and directories that the script still uses would be deleted under it.
"""

from __future__ import annotations

import sys
from _socket import socket as _Socket
from posix import getpid

from . import _wire
from ._aside import Aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, NoReturn

_FUNCTIONS_KEPT = 32
_BETWEEN_LOOKS = 0.2  # seconds, of a chunk: whether its pool says that nothing more of it is to begin
MAIN = "THOLE_MAIN_OF_POOL"  # package:path of the script, for children of a worker that import it (_main_again.py)


class MainReached(BaseException):
    """Ends the import of the main script where nothing can stay at the line: in a thread of the script's own."""


class _NoMore(BaseException):
    """The pool says that nothing more of this chunk is to begin."""


class MainNeeded(BaseException):
    """What was to be unpickled names the main script, which is not imported yet."""


_main_path: str | None = None
_main_package: str | None = None
_main_problem: BaseException | None = None  # that its import has raised: the task's that needed it
_main_line = ""  # at which the worker stays, file:line
importing_main = False
_importing_thread = 0
_rest: Callable[[], object] | None = None  # what this process is for, once the script is imported


def main(number: int) -> None:
    """Works for the pool at the other end of this descriptor, until it says stop."""
    connection, room = connected(number)
    try:
        with_main(_Worker(connection, room).run)
    finally:
        connection.close()


def connected(number: int) -> tuple[_Socket, memoryview]:
    """The connection at this descriptor, after its first packet (:func:`tholepin._start.setup_part`), and room for the next
    ones."""
    connection = _Socket(-1, -1, -1, number)
    connection.settimeout(None)
    room = memoryview(bytearray(_wire.ROOM))
    first = _wire.receive(connection, room)
    if first is None:
        connection.close()
        sys.exit(0)
    import marshal

    first.check()
    set_up(marshal.loads(first.code))
    return connection, room


def with_main(run: Callable[[], object]) -> None:
    """Does the rest of this process's work. Where that needs the main script it raises MainNeeded, and is called once more when
    the script has been imported, perhaps from within that import."""
    global _main_problem
    try:
        run()
        return
    except MainNeeded:
        pass
    try:
        _import_main(run)
    except BaseException as problem:
        _main_problem = problem
    run()


def stay_here() -> None:
    """Called where something is submitted or started, or GPUs are claimed for what is: in a worker that imports the main script
    this is the last line that is run of it."""
    global importing_main, _main_line
    if not importing_main:
        return
    from _thread import get_ident

    if _rest is None or get_ident() != _importing_thread:
        raise MainReached
    importing_main = False
    _main_line = _line_of_main()
    _to_the_end(_rest)


def _line_of_main() -> str:
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _to_the_end(run: Callable[[], object]) -> NoReturn:
    """Does this, then ends the process as an interpreter ends, but without leaving the frames below."""
    import atexit
    import threading

    asyncio = sys.modules.get("asyncio.events")
    if asyncio is not None:
        asyncio._set_running_loop(None)  # where the script makes its pool in a coroutine
    status: object = 1
    try:
        status = run()
    except SystemExit as end:
        status = end.code
    except BaseException:
        with Aside():
            sys.excepthook(*sys.exc_info())
    if isinstance(status, str):
        with Aside():
            sys.stderr.write(status + "\n")
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        leave(status)


def leave(status: object) -> NoReturn:
    """Ends the process as it stands, with what ``sys.exit`` was given."""
    from os import _exit

    try:
        for name in ("stdout", "stderr"):
            with Aside():  # it may be None, and gone
                getattr(sys, name).flush()
    finally:
        _exit(0 if status is None else status & 255 if isinstance(status, int) else 1)


def stop_import_of_main() -> None:
    """The same where processes are started, which no import of multiprocessing's may do either."""
    stay_here()
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


def _import_main(rest: Callable[[], object]) -> None:
    """Makes the names of the pool's main script known here: runs it under another name, as far as it goes without starting
    processes or submitting. Where it would, this does ``rest`` and does not return."""
    global _main_path
    path, _main_path = _main_path, None
    assert path is not None
    import os
    import types
    from importlib.machinery import ModuleSpec

    module = types.ModuleType("__mp_main__")
    module.__spec__ = ModuleSpec("tholepin._main_again", None)
    os.environ[MAIN] = f"{_main_package or ''}:{path}"
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    run_main(path, _main_package, module.__dict__, rest)


def run_main(path: str, package: str | None, names: dict[str, Any], rest: Callable[[], object] | None) -> None:
    """Runs the script in these globals, as far as it goes without starting processes or submitting; does ``rest`` there."""
    global importing_main, _importing_thread, _rest
    from _thread import get_ident

    _rest, _importing_thread = rest, get_ident()
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
        self.ready = False
        self.begun: _wire.Packet | None = None  # and not loaded yet: MainNeeded

    def run(self) -> None:
        self.pid = getpid()
        self.ready = self.ready or self.get_ready()
        if self.ready:
            self.work()

    def next(self) -> _wire.Packet | None:
        packet, self.begun = self.begun, None
        return packet or _wire.receive(self.connection, self.room)

    def get_ready(self) -> bool:
        """Runs the initializer, which is the first packet's function; False where it raised."""
        packet = self.next()
        if packet is None:
            return False
        if packet.body.nbytes or packet.want is not None:
            first = packet
            try:
                self.alone(lambda: self.initialize(first))
            except MainNeeded:
                self.begun = packet
                raise
            except BaseException as problem:
                self.answer(_wire.UNREADY, 0, _raised(problem))
                return False
        self.answer(_wire.READY, 0, b"")
        return True

    def initialize(self, packet: _wire.Packet) -> None:
        initializer, arguments = packet.load(loads)
        initializer(*arguments)

    def answer(self, kind: int, number: int, body: bytes | _wire.Part) -> None:
        self.end_a_copy()
        _wire.send(self.connection, kind, number, 0, b"", body)

    def work(self) -> None:
        connection, room = self.connection, self.room
        packet = self.next()
        # Not before there is work: other workers may still be starting, and want the CPU. But before its functions take up
        # all descriptors: to import something takes one.
        from . import errors  # noqa: F401
        from ._pickling import dumped

        while True:
            if packet is None or packet.kind == _wire.STOP:
                return
            number, given = packet.number, packet
            try:
                body = self.alone(lambda: dumped(self.compute(given)))
                kind = _wire.RESULT
            except KeyboardInterrupt:
                raise
            except MainNeeded:
                self.begun = packet
                raise
            except _NoMore:
                kind, body = _wire.UNBEGUN, b""
            except BaseException as problem:
                kind, body = _wire.RAISED, _raised(problem)
            del packet, given
            self.answer(kind, number, body)
            del body
            packet = _wire.receive(connection, room)
            while packet is not None and packet.kind == _wire.NO_MORE:  # of a chunk that was over by then
                packet = _wire.receive(connection, room)

    def alone(self, run: Callable[[], Any]) -> Any:
        """What this gives, in the worker itself. A copy of it that was forked there (by a task, or by what is unpickled or
        pickled for it) goes no further: what lies in the socket is not for it, nor is what stands around a line of the main
        script."""
        try:
            result = run()
        except BaseException as problem:
            self.end_a_copy(problem)
            raise
        self.end_a_copy()
        return result

    def end_a_copy(self, problem: BaseException | None = None) -> None:
        if getpid() == self.pid:
            return

        def end() -> None:
            if problem is not None:
                raise problem

        _to_the_end(end)

    def compute(self, packet: _wire.Packet) -> Any:
        packet.check()
        function = self.functions.get(packet.function)
        if function is None:
            function = loads(packet.code)
            while len(self.functions) >= _FUNCTIONS_KEPT:
                del self.functions[next(iter(self.functions))]
            self.functions[packet.function] = function
        kind, given = packet.kind, packet.load(loads)
        if kind == _wire.MAP:
            return [function(given[0])] if len(given) == 1 else [function(one) for one in self.while_it_may(given)]
        if kind == _wire.STARMAP:
            return [function(*one) for one in self.while_it_may(given)]
        arguments, named = given
        return function(*arguments, **named)

    def while_it_may(self, given: Iterable[Any]) -> Iterator[Any]:
        from time import monotonic

        due = monotonic() + _BETWEEN_LOOKS
        for one in given:
            self.end_a_copy()
            if monotonic() >= due:
                if _wire.next_kind(self.connection) == _wire.NO_MORE:
                    raise _NoMore
                due = monotonic() + _BETWEEN_LOOKS
            yield one


def loads(data: memoryview, **buffers: Any) -> Any:
    global _main_problem
    if _main_path is not None and b"_main__" in bytes(data):
        raise MainNeeded
    if _main_problem is not None:
        problem, _main_problem = _main_problem, None
        raise problem
    try:
        return _unpickled(data, **buffers)
    except AttributeError as problem:
        if _main_line and "tholepin._main_again" in str(problem):  # as the module is called that the script is run in
            missing = str(problem).replace("<module 'tholepin._main_again'>", "the main script")
            what = f"{missing}: a worker goes no further in it than {_main_line}, which starts processes"
            raise AttributeError(f"{what}; put it above that, or that under a main guard, or pip install cloudpickle") from None
        raise


def _unpickled(data: memoryview, **buffers: Any) -> Any:
    if not _unpickle:
        from _pickle import loads as from_pickle

        _unpickle.append(from_pickle)
    return _unpickle[0](data, **buffers)


_unpickle: list[Callable[..., Any]] = []


def _raised(problem: BaseException) -> bytes | _wire.Part:
    """The exception and its traceback as text. One that cannot be pickled goes as an Error that tells of it."""
    from ._pickling import dumped

    try:
        import traceback

        text = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__))
    except OSError:  # no descriptor is left
        text = f"{type(problem).__name__}: {problem}"
    try:
        body = dumped((problem, text))
        if type(body) is bytes:
            # Many an exception is pickled readily and cannot be loaded: its __init__ wants more than it keeps.
            _unpickled(memoryview(body))
        return body
    except Exception:
        from .errors import Error

        return dumped((Error(f"{type(problem).__name__}: {problem}", hint="the exception itself cannot be pickled"), text))

