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
    from .claims import Claim as Claim, aclaim as aclaim, claim as claim, release as release
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
    "release": "claims",
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
__all__ = [*_WHERE, "__version__"]


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'tholepin' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"tholepin.{module}"), name)
    globals()[name] = value  # the next access finds it without us
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *_WHERE})
