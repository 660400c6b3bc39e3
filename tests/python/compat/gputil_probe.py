"""What GPUtil answers and prints on one machine, as text. Run under GPUtil itself for the golden text, and under thole's."""

import random

import GPUtil


def shown(title, call):
    print(f"== {title}")
    try:
        answer = call()
    except Exception as problem:
        answer = f"{type(problem).__name__}: {problem}"
    if answer is not None:
        print(answer)


print(GPUtil.__version__)
shown("GPUs", lambda: [sorted(vars(gpu).items()) for gpu in GPUtil.getGPUs()])
for words in (
    {},
    {"maxLoad": 1.0},
    {"maxLoad": 0.37},
    {"maxMemory": 0.9},
    {"maxLoad": 1, "maxMemory": 1, "memoryFree": 24177},
    {"maxLoad": 1, "maxMemory": 1, "memoryFree": 70324.5},
    {"includeNan": True},
    {"includeNan": True, "excludeID": [0, 3]},
    {"excludeUUID": ["GPU-fa4e0002-0000-4000-8000-000000000002"]},
):
    shown(f"availability {words}", lambda: GPUtil.getAvailability(GPUtil.getGPUs(), **words))
    for order in ("first", "last", "load", "memory", "random", "whatever"):
        random.seed(7)
        shown(f"available {order} {words}", lambda: GPUtil.getAvailable(order=order, limit=8, **words))
for limit in (0, 1, 2, -1, float("inf")):
    shown(f"limit {limit}", lambda: GPUtil.getAvailable(limit=limit, maxMemory=0.9))
shown("positional", lambda: GPUtil.getAvailable("last", 2, 0.9, 0.9, 0, True, [1], []))
shown("first available", lambda: GPUtil.getFirstAvailable())
shown("first available, aloud", lambda: GPUtil.getFirstAvailable("last", 0.9, 0.9, 3, 900, True))
shown("none available", lambda: GPUtil.getFirstAvailable(maxLoad=0.0))
shown("none available at any attempt", lambda: GPUtil.getFirstAvailable(maxLoad=0.0, attempts=2, interval=0, verbose=True))
shown("table", lambda: GPUtil.showUtilization())
shown("table of all", lambda: GPUtil.showUtilization(all=True))
shown("old table", lambda: GPUtil.showUtilization(useOldCode=True))
shown("old table of all", lambda: GPUtil.showUtilization(True, useOldCode=True))
