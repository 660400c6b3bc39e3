"""What can fail, each with the reason as data.

All derive from :class:`Error`. ``code`` is the exit status that the program ``thole`` would end with for the same reason.
"""

from __future__ import annotations

import errno

# What mends a want of something, by the number of the system call's error: the program's own words, of base/want.cpp.
WANTS = {
    errno.EMFILE: "raise the descriptor limit: ulimit -n",
    errno.ENFILE: "the machine has no descriptors left: fs.file-max",
    errno.EAGAIN: "raise the limit of processes (ulimit -u) or of memory (ulimit -v)",
    errno.ENOMEM: "memory is short: end something, or see the limit: ulimit -v",
}


class Error(RuntimeError):
    """Something failed; what, on which object, why, and what mends it are attributes.

    >>> import tholepin
    >>> try:
    ...     tholepin.claim(1, model="H100")
    ... except tholepin.Error as error:
    ...     error.code, error.message, error.object
    (64, 'no GPU that would do is of this model', 'H100')

    Attributes:
        message: the sentence.
        code: the class of failure: 64 a wrong request, 69 something cannot be used, 70 too late, 75 none free, 124 the wait ran
            out, 125 thole itself failed, 130 interrupted.
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

    def say(self, message: str) -> None:
        """Puts it in other words."""
        self.message = message
        self.args = (message, *self.args[1:])

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
        # What OSError has of its own, errno, is not in the dictionary of those that are TimeoutErrors, too.
        return _rebuilt, (type(self), self.args, {**self.__dict__, "errno": self.errno})


def _rebuilt(kind: type[Error], args: tuple[object, ...], attributes: dict[str, object]) -> Error:
    error: Error = (OSError if issubclass(kind, OSError) else kind).__new__(kind, *args)
    error.args = args
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class WrongRequest(Error, ValueError):
    """The words of a request are wrong: what is no number, no GPU, none of the choices. Known outside as Error and
    ValueError."""

    default_code = 64


class WrongType(WrongRequest, TypeError):
    """An argument is of a type that it cannot have. Known outside as Error, ValueError and TypeError."""


class NoneFree(Error):
    """None is free now, and the call was not to wait (``wait=0``).

    >>> import tholepin
    >>> all_of_them = "import tholepin; tholepin.claim(8); print(flush=True); input()"
    >>> import subprocess, sys
    >>> somebody = subprocess.Popen([sys.executable, "-c", all_of_them], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    >>> _ = somebody.stdout.readline()
    >>> try:
    ...     tholepin.claim(1, wait=0)
    ... except tholepin.NoneFree as error:
    ...     error.code
    75
    >>> _ = somebody.communicate()
    """

    default_code = 75


class WaitTimeout(Error, TimeoutError):
    """The time to wait ran out; a ``TimeoutError``, too.

    >>> import tholepin
    >>> job = tholepin.submit(["sleep", "60"], gpus=0)
    >>> try:
    ...     tholepin.wait(job, timeout=1)
    ... except tholepin.WaitTimeout as error:
    ...     error.code
    124
    """

    default_code = 124
    errno: int  # TimeoutError alone says that it may be None


class NeverPossible(Error, ValueError):
    """This machine can never meet the request: more GPUs than it has, a model it has not. A ``ValueError``, too.

    >>> import tholepin
    >>> try:
    ...     tholepin.claim(9)
    ... except tholepin.NeverPossible as error:
    ...     error.code
    64
    """

    default_code = 64


class TooLateError(Error):
    """CUDA, HIP or Level Zero has been started in this process, so that a claim can no longer choose its GPUs.

    >>> import sys, types, tholepin
    >>> sys.modules["torch"] = types.ModuleType("torch")
    >>> sys.modules["torch"].cuda = types.SimpleNamespace(is_initialized=lambda: True)
    >>> try:
    ...     tholepin.claim(1)
    ... except tholepin.TooLateError as error:
    ...     error.culprit
    'torch'
    >>> del sys.modules["torch"]

    Attributes:
        culprit: what has started it: "torch", "tensorflow", "jax", "cupy", "numba", "pycuda"; "torch or jax" where only the
            runtime is seen and these are loaded, "a library" where none is; "" where only the driver's list of processes tells.

    The hint says what to do: claim in the first line of the program, start it with ``thole run``, restart the notebook's
    kernel.
    """

    default_code = 70
    culprit = ""


class DriverError(Error):
    """The vendor's driver does not answer, or a GPU that was asked for cannot be used.

    >>> import json, os, tholepin
    >>> sick = {"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "health": "lost"}]}
    >>> path = os.environ["THOLE_STATE_DIR"] + ".json"
    >>> with open(path, "w") as file:
    ...     json.dump(sick, file)
    >>> os.environ["THOLE_MACHINE"] = path
    >>> try:
    ...     tholepin.claim(1)
    ... except tholepin.DriverError as error:
    ...     error.code, error.hint
    (69, 'thole doctor')
    """

    default_code = 69


class WorkerDied(Error):
    """A worker process ended before its task did.

    >>> import tholepin
    >>> tholepin.WorkerDied("worker 2 was killed", pid=4711, exit_status=-9).exit_status
    -9

    Attributes:
        pid: of the worker.
        exit_status: as ``multiprocessing`` has it: the exit status, or minus the signal's number; None where unknown.
    """

    default_code = 69

    def __init__(self, message: str, *, pid: int = 0, exit_status: int | None = None, object: str = "", hint: str = "") -> None:
        super().__init__(message, object=object, hint=hint)
        self.pid = pid
        self.exit_status = exit_status


class WorkerNotStarted(Error, OSError):
    """A worker process could not be started: the interpreter is gone, or there are too few processes, descriptors or memory. An
    ``OSError``, too.

    >>> import sys, tholepin
    >>> python, sys.executable = sys.executable, "/gone/python"
    >>> with tholepin.Pool(2) as pool:
    ...     try:
    ...         pool.wait_until_ready()
    ...     except tholepin.WorkerNotStarted as error:
    ...         error.message, error.object
    ('cannot start worker 1 of 2', '/gone/python')
    >>> sys.executable = python
    """

    default_code = 69
    errno: int  # OSError alone says that it may be None
