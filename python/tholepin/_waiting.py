"""How a claim waits: how long, what may end the wait before, and who is told of it.

A wait that is told of: where the GPUs are not free at once, and the wait is not over in a moment, the library says why
through a pipe ("tell_fd" in thole.h), and it is said once: on stderr in the words of ``thole run``, or by the logger "tholepin"
where a handler is to show its INFO; and to ``on_wait``. So is what keeps it from the line before, as who keeps the claims
locked: as a caution.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import posix
import select
import sys
import threading
from typing import Any, Callable, Iterator, Mapping, Union

from . import _epoll, _native, _option_words, errors, words
from ._aside import Aside

# Told of a wait: {"gpus": …, "position": …, "promise": …, "why": ["next in line", "GPU 0: …", …]}.
OnWait = Callable[[Mapping[str, Any]], object]
# A descriptor, or what has one: an eventfd, a pipe's read end, a socket.
Cancel = Union[int, Any]

MOMENT = 0.2  # seconds; a wait that is over sooner is not worth a word
_NOW_AND_THEN = 1.0  # ... between looks for more, once there has been one
_WIDTH = 80


class Patience:
    """How long a claim waits, and what goes with that.

    Args:
        wait: how long at most; None: as configured.
        cancel: ends the wait when it becomes readable.
        on_wait: called once, when the wait has begun; before, with what keeps it from the line.
        quiet: nothing is written to stderr; None: as THOLE_QUIET says.
    """

    def __init__(
        self,
        wait: words.Duration | None = None,
        cancel: Cancel | None = None,
        on_wait: OnWait | None = None,
        quiet: bool | None = None,
    ) -> None:
        self.milliseconds = _native.AS_CONFIGURED if wait is None else words.milliseconds(wait)
        self._cancel = None if cancel is None else _descriptor(cancel)
        words.function(on_wait, "on_wait")
        self._on_wait = on_wait
        self.quiet = os.environ.get("THOLE_QUIET", "0") not in ("", "0") if quiet is None else words.flag(quiet, "quiet")
        self.is_a_moment = False  # what takes longer raises errors.Unseen

    def __reduce__(self) -> tuple[object, ...]:
        # In another process: a function that on_gpu() decorates is sent with it. The descriptor and the callback are this
        # process's.
        wait = {_native.AS_CONFIGURED: None, _native.FOR_EVER: float("inf")}.get(self.milliseconds, self.milliseconds / 1000)
        return Patience, (wait, None, None, self.quiet)

    def at_once(self) -> Patience:
        """The same of who does not wait."""
        same = Patience.__new__(Patience)  # a copy is for another process
        vars(same).update(vars(self), milliseconds=0)
        return same

    def in_a_moment(self) -> Patience:
        """The same of who does not wait for those either who keep the claims locked."""
        same = self.at_once()
        same.is_a_moment = True
        return same

    def canceller(self) -> Canceller:
        """What the library is to listen to during one wait."""
        return Canceller(self._cancel)

    def caution(self, request: bytes, text: str, before: bool) -> None:
        """Says what keeps a claim from the line; to ``on_wait`` while it has not been told of the wait yet."""
        warn([text], self.quiet)
        if before and self._on_wait is not None:
            self._on_wait(self._told(request, {"why": [text]}))

    def tell(self, request: bytes, reason: Mapping[str, Any]) -> None:
        """Says that a wait has begun."""
        import logging

        told = self._told(request, reason)
        lines = told["why"]
        log = logging.getLogger("tholepin")
        with Aside():
            log.info("%s", ", ".join(["waiting", *lines[:1]]) + "".join("; " + line for line in lines[1:]))
        shown = log.isEnabledFor(logging.INFO) and log.hasHandlers()
        if not self.quiet and not shown:
            to_stderr(text(lines))
        if self._on_wait is not None:
            self._on_wait(told)

    def _told(self, request: bytes, reason: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "gpus": _native.decoded(request.decode())[0].get("gpus", 1),
            "position": None,
            "promise": None,
            **reason,
            "why": [_option_words.in_arguments(line) for line in reason["why"]],
        }


class Telling:
    """What the library tells of one wait, and what has been said of it."""

    def __init__(self, request: bytes, patience: Patience) -> None:
        self._request, self._patience = request, patience
        self._begun = False
        self._rest = b""
        self._ear, self.fd = os.pipe()
        for fd in (self._ear, self.fd):
            os.set_blocking(fd, False)

    @property
    def pause(self) -> float:
        """When to listen again."""
        return _NOW_AND_THEN if self._begun else MOMENT

    def say(self, is_over: bool = False) -> None:
        """Says what has come. That it waits is no news when that is over."""
        for told in self._heard():
            if "caution" in told:
                self._patience.caution(self._request, told["caution"], not self._begun and not is_over)
            elif not is_over:
                self._begun = True
                self._patience.tell(self._request, told)

    def _heard(self) -> Iterator[Mapping[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            self._rest += posix.read(self._ear, 2**16)  # os.read is eventlet's, where that is, and waits for more
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):  # one that there was no room for
                yield json.loads(line)

    def close(self) -> None:
        """When nobody tells any more."""
        os.close(self._ear)
        os.close(self.fd)


def text(lines: list[str]) -> str:
    """What ``thole run`` would say.

    >>> print(text(["next in line", "GPU 0: ann since 10:00 (train.py)"]), end="")
    thole: waiting, next in line
      GPU 0: ann since 10:00 (train.py)
    """
    import textwrap

    said = textwrap.fill(", ".join(["thole: waiting", *lines[:1]]), _WIDTH, subsequent_indent="    ", break_long_words=False)
    for line in lines[1:]:
        said += "\n" + textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
    return said + "\n"


_warned: set[str] = set()


def warn(cautions: list[str], quiet: bool) -> None:
    """Says of a claim what its owner should know, once in this program: to its log, or else on stderr."""
    for caution in cautions:
        if caution not in _warned:
            _warned.add(caution)
            say(caution, quiet)


def say(caution: str, quiet: bool) -> None:
    """Puts it into the log, or else on stderr."""
    import logging
    import textwrap

    log = logging.getLogger("tholepin")
    if log.hasHandlers():
        with Aside():
            log.warning("%s", caution)
    elif not quiet:
        to_stderr(textwrap.fill("thole: " + caution, _WIDTH, subsequent_indent="  ", break_long_words=False) + "\n")


def to_stderr(text: str) -> None:
    """As far as that takes it: nobody gives up what he waits for, or has, for want of somebody who reads of it. Past Python's
    own buffer, which would keep what was not taken and end the program with status 120."""
    with Aside():
        stream = sys.stderr
        if stream is not None and stream is sys.__stderr__:
            stream.flush()
            os.write(stream.fileno(), text.encode(stream.encoding, "backslashreplace"))
        elif stream is not None:
            stream.write(text)
            stream.flush()


class Canceller:
    """A descriptor that becomes readable by :meth:`cancel`, or when another one does."""

    def __init__(self, other: int | None) -> None:
        self._ear, self._mouth = os.pipe()
        # cancel() comes from anywhere, and must not write to a number that is somebody else's by now
        self._lock = threading.Lock()
        self._closed = False
        self._both: select.epoll | None = None
        try:
            if other is not None:  # the library listens to one descriptor: an epoll is readable when any in it is
                self._both = _epoll.epoll()
                for fd in (self._ear, other):
                    self._both.register(fd, select.EPOLLIN)
        except OSError as problem:
            self.close()
            raise _not_waited_for(other, problem) from None

    @property
    def fd(self) -> int:
        """For the library."""
        return self._ear if self._both is None else self._both.fileno()

    def cancel(self) -> None:
        """Ends the wait; when it is over, nothing."""
        with self._lock:
            if not self._closed:
                os.write(self._mouth, b"!")

    def close(self) -> None:
        """When nobody listens any more."""
        with self._lock:
            self._closed = True
            if self._both is not None:
                self._both.close()
            os.close(self._ear)
            os.close(self._mouth)


_off_main: set[Canceller] = set()  # the waits of threads that get no signals
_watched: set[bool] = set()
_ended: list[bool] = []


@contextlib.contextmanager
def ended_with_the_program(canceller: Canceller) -> Iterator[None]:
    """While a thread other than the main one waits: when Ctrl-C has ended the program, its end does not wait for that wait."""
    # Registered again where the executors' own wait for their threads has been registered since: the last one is the first.
    after_executors = "concurrent.futures.thread" in sys.modules
    if after_executors not in _watched:
        _watched.add(after_executors)
        try:
            getattr(threading, "_register_atexit", atexit.register)(_end_of_the_program)
        except RuntimeError:  # it is at its end already
            _end_of_the_program()
    _off_main.add(canceller)
    if _ended:
        canceller.cancel()
    try:
        yield
    finally:
        _off_main.discard(canceller)


def _end_of_the_program() -> None:
    # One that has just come to its end waits for its threads as ever.
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        _ended.append(True)
        for canceller in list(_off_main):
            canceller.cancel()


def _descriptor(cancel: Cancel) -> int:
    fd = cancel if isinstance(cancel, int) else getattr(cancel, "fileno", lambda: None)()
    if not isinstance(fd, int) or isinstance(fd, bool) or not 0 <= fd < 2**31:
        raise errors.WrongRequest(
            f"cancel: expected a descriptor or what has one (an eventfd, a pipe, a socket), got {cancel!r}"
        )
    try:
        with _epoll.epoll() as epoll:
            epoll.register(fd, select.EPOLLIN)
    except OSError as problem:
        if problem.errno in (errno.EBADF, errno.EPERM):  # else it is this epoll that there is no room for
            raise _not_waited_for(fd, problem) from None
    return fd


def _not_waited_for(fd: int | None, problem: OSError) -> errors.WrongRequest:
    return errors.WrongRequest("cancel: this cannot be waited for", object=f"descriptor {fd}", errno=problem.errno or 0)
