"""What can fail, each with the reason as data.

All derive from :class:`Error`. ``code`` is the exit status that the program ``thole`` would end with for the same reason.
"""

from __future__ import annotations


class Error(Exception):
    """Something failed.

    >>> import thole
    >>> try:
    ...     thole.claim(1, pick="best")
    ... except thole.Error as error:
    ...     error.code, error.message
    (64, 'request.pick: "best" is not known')

    Attributes:
        message: the sentence.
        code: the class of failure: 64 a wrong request, 69 something cannot be used, 70 too late, 75 none free, 124 the wait ran out, 125 thole
            itself failed, 130 interrupted.
        object: the file, GPU or word it was about; "" where there is none.
        hint: what mends it; "" where nothing is known to.
        errno: of the system call that failed; 0 where none did.
    """

    default_code = 125

    def __init__(self, message: str, *, code: int | None = None, object: str = "", hint: str = "", errno: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.object = object
        self.hint = hint
        self.errno = errno

    def __str__(self) -> str:
        text = self.message
        if self.object:
            text += f": {self.object}"
        if self.errno:
            from os import strerror

            text += f": {strerror(self.errno)}"
        if self.hint:
            text += f"\n  {self.hint}"
        return text

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword arguments do not survive BaseException's own way of being pickled; errors cross process boundaries in pools.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[Error], args: tuple[object, ...], attributes: dict[str, object]) -> Error:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class NoneFree(Error):
    """None is free now, and the call was not to wait (``wait=0``).

    >>> import thole
    >>> with thole.claim(8):
    ...     pass                                   # all of this machine
    """

    default_code = 75


class WaitTimeout(Error):
    """The time to wait ran out."""

    default_code = 124


class NeverPossible(Error):
    """This machine can never meet the request: more GPUs than it has, a model it has not.

    >>> import thole
    >>> try:
    ...     thole.claim(9)
    ... except thole.NeverPossible as error:
    ...     error.code
    64
    """

    default_code = 64


class TooLateError(Error):
    """CUDA, HIP or Level Zero has been started in this process, so that a claim can no longer choose its GPUs.

    Attributes:
        culprit: what has started it: "torch", "tensorflow", "jax", "cupy", "numba", "pycuda"; "torch or jax" where only the runtime
            is seen and these are loaded, "a library" where none is; "" where only the driver's list of processes tells.

    The hint says what to do: claim in the first line of the program, start it with ``thole run``, restart the notebook's kernel.
    """

    default_code = 70
    culprit = ""


class DriverError(Error):
    """The vendor's driver does not answer, or a GPU that was asked for cannot be used."""

    default_code = 69


class WorkerDied(Error):
    """A worker process ended before its task did.

    Attributes:
        pid: of the worker.
        exit_status: as ``multiprocessing`` has it: the exit status, or minus the signal's number; None where unknown.
    """

    default_code = 69

    def __init__(self, message: str, *, pid: int = 0, exit_status: int | None = None, object: str = "", hint: str = "") -> None:
        super().__init__(message, object=object, hint=hint)
        self.pid = pid
        self.exit_status = exit_status
