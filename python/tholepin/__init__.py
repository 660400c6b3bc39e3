"""See, claim and share the GPUs of this machine.

>>> import tholepin
>>> claim = tholepin.claim(1)                  # first line of train.py: waits its turn, lasts as long as the process
>>> len(claim.uuids)
1
>>> claim.release()

Every public name is here; ``help(tholepin.claim)`` and its neighbours say units, errors and defaults. What fails raises
:class:`tholepin.Error` or a class derived from it, with the reason as data. The environment says which machine is meant:
``THOLE_MACHINE=dgx-a100`` is a simulated one, ``THOLE_STATE_DIR`` another directory of claims.

How this module works: nothing is imported until it is used (``__getattr__`` below), so that ``import tholepin`` costs less than
15 ms and a script that only catches an error never loads the library.
"""

# Typing's own constant would cost importing typing; type checkers know the name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from .claims import Claim as Claim, aclaim as aclaim, claim as claim
    from .decorator import on_gpu as on_gpu
    from .errors import (
        DriverError as DriverError,
        Error as Error,
        NeverPossible as NeverPossible,
        NoneFree as NoneFree,
        TooLateError as TooLateError,
        WaitTimeout as WaitTimeout,
        WorkerDied as WorkerDied,
        WorkerNotStarted as WorkerNotStarted,
    )
    from .executor import Executor as Executor
    from .group import ProcessGroup as ProcessGroup
    from .magic import load_ipython_extension as load_ipython_extension, unload_ipython_extension as unload_ipython_extension
    from .machine import (
        Bound as Bound,
        Gpu as Gpu,
        Plan as Plan,
        Rank as Rank,
        Unit as Unit,
        bind as bind,
        gpus as gpus,
        plan as plan,
        status as status,
        topo as topo,
        why as why,
    )
    from .policy import Policy as Policy
    from .pool import Pool as Pool
    from .process import Process as Process, ProcessTemplate as ProcessTemplate
    from .results import AsyncResult as AsyncResult
    from .queue import jobs as jobs, submit as submit, wait as wait
    from .system import Node as Node, System as System

# Public name -> the module that has it. A name never equals a module's: importing that would replace it.
_WHERE = {
    "Claim": "claims",
    "aclaim": "claims",
    "claim": "claims",
    "on_gpu": "decorator",
    "DriverError": "errors",
    "Error": "errors",
    "NeverPossible": "errors",
    "NoneFree": "errors",
    "TooLateError": "errors",
    "WaitTimeout": "errors",
    "WorkerDied": "errors",
    "WorkerNotStarted": "errors",
    "load_ipython_extension": "magic",
    "unload_ipython_extension": "magic",
    "Bound": "machine",
    "Gpu": "machine",
    "Plan": "machine",
    "Rank": "machine",
    "Unit": "machine",
    "bind": "machine",
    "gpus": "machine",
    "plan": "machine",
    "status": "machine",
    "topo": "machine",
    "why": "machine",
    "AsyncResult": "results",
    "Executor": "executor",
    "Node": "system",
    "Policy": "policy",
    "Pool": "pool",
    "Process": "process",
    "ProcessGroup": "group",
    "ProcessTemplate": "process",
    "System": "system",
    "jobs": "queue",
    "submit": "queue",
    "wait": "queue",
}

__version__ = "0.1.0"
__all__ = [*_WHERE, "release", "__version__"]


def release() -> None:
    """Ends every claim that :func:`claim` and :func:`aclaim` have made in this process, also where nobody has the object any
    more (a notebook's cell that was run again has replaced it).

    >>> import tholepin
    >>> lost = tholepin.claim(2)
    >>> lost = tholepin.claim(2)                # comes out of the first, which has no name now
    >>> tholepin.release()
    >>> tholepin.claim(8, wait=0).release()

    The GPUs of pools stay claimed until those end, also where they came out of a claim.
    """
    try:
        _release_all()
    except BaseException:  # a signal handler's
        _release_all()
        raise


def _release_all() -> None:
    import sys

    # Not there, or not all of it yet, where a signal handler calls before there is any claim.
    release_all = getattr(sys.modules.get("tholepin.claims"), "release_all", None)
    if release_all is not None:
        release_all()


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'tholepin' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(f"tholepin.{module}"), name)
    except AttributeError as problem:  # Python gives a handler what there is of a module that its own thread imports
        raise ImportError(
            f"tholepin.{name} cannot be used here: this has interrupted the import of it; a signal handler can set a flag"
        ) from problem
    globals()[name] = value  # the next access finds it without us
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *_WHERE})
