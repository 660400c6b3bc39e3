"""What is said beside the work, by streams, loggers and hooks that are the program's own to replace."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class Aside:
    """Within it something is said. Where that fails, whatever stands in the place of the stream, the work goes on. Not so
    what a signal handler raises meanwhile: that is the program's, and means the work.

    >>> with Aside():
    ...     object().write("a stream that is none")
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return isinstance(problem, Exception) and not _is_a_handlers(traceback)


def _is_a_handlers(traceback: TracebackType | None) -> bool:
    import signal

    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False
