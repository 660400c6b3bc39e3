"""The words of :func:`tholepin.claim` as a request of thole.h."""

from __future__ import annotations

from typing import Any, Callable

from . import words

# A word of claim() -> the field of thole.h, and what checks and translates it.
FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "gpus": ("gpus", words.whole),
    "on": ("on", words.gpu_names),
    "not_on": ("not", words.gpu_names),
    "order": ("order", words.gpu_names),
    "model": ("model", words.text),
    "memory": ("memory_mib", words.mebibytes),
    "share": ("share", words.flag),
    "share_with": ("share_with", words.choice),
    "beside": ("beside", words.choice),
    "max_load": ("max_load_percent", words.percent),
    "max_memory": ("max_memory_percent", words.percent),
    "pick": ("pick", words.choice),
    "shape": ("shape", words.choice),
    "trust_claims": ("trust_claims", words.flag),
    "ids": ("ids", words.choice),
    "command": ("command", words.text),
}


def request_for(**said: Any) -> dict[str, Any]:
    """The JSON request of thole.h for these words of :func:`tholepin.claim`; what is not said is not in it: the configuration
    decides.

    >>> request_for(gpus=2, on=3, memory="1G", model=None)
    {'gpus': 2, 'on': ['3'], 'memory_mib': 1024}
    """
    request: dict[str, Any] = {}
    for name, value in said.items():
        if name not in FIELDS:
            raise TypeError(f"there is no word {name!r} about claims; see help(tholepin.claim)")
        if value is None or (isinstance(value, tuple) and not value):
            continue
        field, checked = FIELDS[name]
        request[field] = checked(value, name)
    return request
