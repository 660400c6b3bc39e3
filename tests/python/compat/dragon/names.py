"""The public names of Dragon that the drop-in has, what each is and how it is called: one line of JSON for each, sorted.

    VENV/bin/python names.py > names_VERSION.jsonl         # of an installed dragonhpc: what is recorded beside this file
    thole compat -- python names.py                        # of the drop-in

Without annotations: they are no behaviour, and Python's versions write them differently. Facts of an interface only; dragonhpc
is Hewlett Packard Enterprise's, licence MIT.
"""
import enum
import importlib
import inspect
import json
import re

NAMES = {
    "dragon": "Policy System current ProcessTemplate ProcessGroup in_dragon DDict Batch __version__",
    "dragon.native": "Array Barrier Event Lock Pool Popen Process Queue Semaphore Value cpu_count",
    "dragon.native.machine": "Node System cpu_count current",
    "dragon.native.pool": "ApplyResult AsyncResult MapResult MaybeEncodingError Pool RemoteTraceback",
    "dragon.native.process": "MSG_DEVNULL MSG_PIPE MSG_STDOUT Popen Process ProcessTemplate current",
    "dragon.native.process_group": "DragonProcessGroupAlreadyInitialized DragonProcessGroupError DragonProcessGroupException "
    "DragonProcessGroupIdleError DragonProcessGroupJoinError DragonProcessGroupRunningError DragonProcessGroupSignalError "
    "DragonProcessGroupStartError DragonUserCodeError Process ProcessGroup ProcessTemplate State",
    "dragon.native.queue": "Queue QueueError",
    "dragon.native.event": "Event",
    "dragon.native.barrier": "Barrier BrokenBarrierError",
    "dragon.native.lock": "Lock",
    "dragon.infrastructure.policy": "GS_GLOBAL_POLICY_SDICT Policy PolicyError",
    "dragon.infrastructure.facts": "PMIBackend",
    "dragon.infrastructure.connection": "Address CUID Client Connection ConnectionOptions Listener Pipe PipeOptions",
}
SPECIAL = {"__init__", "__enter__", "__exit__", "__str__", "__len__"}  # of what begins with _
_SAID_BELOW = {"_state"}  # it has no public twin, and Dragon's own tests use it


def called(function):
    """Its signature; of an object as a default only the name."""
    parameters = inspect.signature(function).parameters.values()
    bare = inspect.Signature([one.replace(annotation=inspect.Parameter.empty) for one in parameters])
    return re.sub(r"<module '(\w+)' from '[^']*'>", r"\1", str(bare))


def described(value):
    if isinstance(value, (staticmethod, classmethod)):
        return [type(value).__name__, called(value.__func__)]
    if isinstance(value, property) or inspect.isdatadescriptor(value):
        return ["property"]
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return ["enum", {name: member.value for name, member in value.__members__.items()}]
    if inspect.isclass(value):
        return ["class"]
    if callable(value):
        return ["method", called(value)]
    return ["value", repr(value)]


def members(kind):
    """Of a class and of Dragon's classes below it; of builtins nothing is said."""
    found = {}
    for one in reversed(kind.__mro__):
        if one.__module__.split(".")[0] in ("builtins", "enum", "abc", "typing"):
            continue
        for name, value in vars(one).items():
            if not name.startswith("_") or name in SPECIAL or name in _SAID_BELOW:
                found[name] = described(value)
    return found


def lines():
    said = {}  # class -> the name under which its members stand
    for module, names in sorted(NAMES.items(), key=lambda item: item[0].count(".") < 2):
        loaded = importlib.import_module(module)
        for name in names.split():
            path = f"{module}.{name}"
            try:
                value = getattr(loaded, name)
            except (AttributeError, ImportError):
                yield [path, "missing"]
                continue
            if not inspect.isclass(value):
                yield [path, *(["function", called(value)] if inspect.isfunction(value) else ["value", type(value).__name__])]
            elif value in said:
                yield [path, "is", said[value]]
            elif value.__module__ not in NAMES:
                yield [path, "class of", value.__module__]
            elif issubclass(value, enum.Enum):
                said[value] = path
                yield [path, *described(value)]
            else:
                said[value] = path
                yield [path, "class", [one.__name__ for one in value.__mro__[1:-1]]]
                for member, what in sorted(members(value).items()):
                    yield [f"{path}.{member}", *what]


if __name__ == "__main__":
    for line in lines():
        print(json.dumps(line, sort_keys=True))
