# ctest: timeout 600
"""Whatever is given to a public call: what cannot be right is refused at once, by a TypeError, a ValueError or an Error of ours
that names the argument. All calls and all their arguments are gone over, so that a new one cannot be forgotten."""
import asyncio
import inspect
import os

import pytest

import tholepin
from tholepin import Policy, ProcessTemplate


class Thing:
    """What no argument takes."""


WRONG = [Thing(), [Thing()], {"a": Thing()}, float("nan"), b"\xff\0"]
NOT_CALLED = {"__version__", "AsyncResult", "Claim", "Bound", "Gpu", "Plan", "Rank", "Unit", "DriverError", "Error",
              "NeverPossible", "NoneFree", "TooLateError", "WaitTimeout", "WorkerDied", "WorkerNotStarted"}   # given, not made
WITHOUT_ARGUMENTS = {"status", "gpus", "release", "System"}
# An argument that takes any object, or any list, dict or bytes.
ANYTHING = {"options", "hide_stderr"}
TAKES = {"args": list, "initargs": list, "iterable": (list, dict, bytes), "iterables": (list, dict, bytes), "kwds": dict,
         "kwargs": dict}


async def gone(opening):
    async with opening:
        pass


def one_of_several(function, name, **others):
    """A call of what takes any number of one argument by position."""
    def call(**said):
        given = [said.pop(name)] if name in said else []
        return function(*given, **{**others, **said})
    return call


def ended(made, **usual):
    def call(**said):
        others = {} if said.keys() & {"policy", "gpus", "processes_per_policy"} else usual
        pool = made(**{**others, **said})
        pool.terminate() if made is tholepin.Pool else pool.shutdown()
    return call


def got(method):
    def call(**said):
        found = method(**said)
        return found.get(60) if isinstance(found, tholepin.AsyncResult) else list(found)
    return call


def calls():
    """(what it is, what is called with keywords, whose signature it has, what it needs at least)."""
    t, true = tholepin, ProcessTemplate("true")
    yield "claim", lambda **said: t.claim(**said).release(), t.claim, {}
    yield "aclaim", lambda **said: asyncio.run(gone(t.aclaim(**said))), t.claim, {}
    yield "on_gpu", lambda **said: t.on_gpu(**said), t.on_gpu, {}
    yield "bind", t.bind, t.bind, {}
    yield "plan", t.plan, t.plan, {}
    yield "topo", t.topo, t.topo, {}
    yield "why", one_of_several(t.why, "what"), t.why, {}
    yield "Node", t.Node, t.Node, {}
    yield "Policy", Policy, Policy, {}
    yield "Policy.merge", Policy.merge, Policy.merge, {"low": Policy(), "high": Policy()}
    yield "Policy.from_sdict", Policy.from_sdict, Policy.from_sdict, {}
    yield "Pool", ended(t.Pool, processes=1), t.Pool, {}
    yield "Executor", ended(t.Executor, max_workers=1), t.Executor, {}
    yield "ProcessTemplate", ProcessTemplate, ProcessTemplate, {"target": "true"}
    yield "Process", t.Process, t.Process, {"target": "true"}
    yield "Process.from_template", t.Process.from_template, t.Process.from_template, {"template": true}
    yield "ProcessGroup", t.ProcessGroup, t.ProcessGroup, {}
    yield "submit", t.submit, t.submit, {"command": ["true"], "gpus": 0, "hold": True}
    yield "jobs", one_of_several(t.jobs, "which"), t.jobs, {}
    yield "wait", one_of_several(t.wait, "which"), t.wait, {}
    yield "load_ipython_extension", t.load_ipython_extension, t.load_ipython_extension, {}
    group = t.ProcessGroup()
    yield "ProcessGroup.add_process", group.add_process, group.add_process, {"nproc": 1, "template": true}
    for name in ("join", "stop", "close", "send_signal"):
        yield f"ProcessGroup.{name}", getattr(group, name), getattr(group, name), {}
    process = t.Process("true")
    process.start()
    process.join()
    for name in ("join", "send_signal"):
        yield f"Process.{name}", getattr(process, name), getattr(process, name), {}
    with t.Pool(1) as pool:
        for name in ("apply", "apply_async"):
            method = getattr(pool, name)
            yield f"Pool.{name}", method, method, {"func": os.getpid}
        for name in ("map", "map_async", "starmap", "starmap_async", "imap", "imap_unordered"):
            method = getattr(pool, name)
            yield f"Pool.{name}", got(method), method, {"func": abs, "iterable": []}
        for name in ("wait_until_ready", "terminate", "join"):
            yield f"Pool.{name}", getattr(pool, name), getattr(pool, name), {}
        result = pool.apply_async(os.getpid)
        for name in ("get", "wait"):
            yield f"AsyncResult.{name}", getattr(result, name), getattr(result, name), {}
        following = pool.imap(abs, [1])
        yield "imap().next", following.next, following.next, {}
        assert result.get(60) and next(following) == 1, "nothing of all that has hurt the pool"
    with t.Executor(1) as executor:
        yield "Executor.submit", one_of_several(executor.submit, "fn"), executor.submit, {}
        yield "Executor.map", lambda **said: list(executor.map(said.pop("fn", abs), said.pop("iterables", []), **said)), \
            executor.map, {}
        yield "Executor.wait_until_ready", executor.wait_until_ready, executor.wait_until_ready, {}
        assert executor.submit(os.getpid).result(60)


def wrong_for(name, argument, parameter):
    if argument in ANYTHING or parameter.kind is parameter.VAR_KEYWORD or (name, argument) == ("Executor.submit", "args"):
        return []
    return [value for value in WRONG if not isinstance(value, TAKES.get(argument, ()))]


def test_every_argument_of_every_call_refuses_what_it_cannot_be():
    mistakes, seen = [], set()
    for name, call, signed, needed in calls():
        seen.add(name.split(".")[0])
        for argument, parameter in inspect.signature(signed).parameters.items():
            for value in wrong_for(name, argument, parameter):
                try:
                    call(**{**needed, argument: value})
                    mistakes.append(f"{name}({argument}={value!r}) is accepted")
                except Exception as error:
                    known = isinstance(error, (TypeError, ValueError, tholepin.Error))
                    if not known or argument not in str(error):
                        mistakes.append(f"{name}({argument}={value!r}) raises {type(error).__name__}: {error}")
    assert not mistakes, "\n".join(mistakes)
    public = set(tholepin.__all__) - NOT_CALLED - WITHOUT_ARGUMENTS - {"System", "unload_ipython_extension"}
    assert public <= seen, public - seen


@pytest.mark.parametrize("gone_over", ["claim", "pool", "executor"])
def test_a_coroutine_refuses_as_the_plain_call_does(gone_over):
    made = {"claim": tholepin.aclaim, "pool": tholepin.Pool.aopen, "executor": tholepin.Executor.aopen}[gone_over]
    for argument, value in (("gpus", Thing()), ("wait", Thing()), ("on_wait", Thing()), ("quiet", "x")):
        with pytest.raises(ValueError, match=f"^{argument}: ") as caught:
            asyncio.run(gone(made(**{argument: value} if argument == "gpus" else {"gpus": 1, argument: value})))
        assert isinstance(caught.value, tholepin.Error)
