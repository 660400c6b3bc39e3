"""What the program and its library say of options of the command line, as it is said of a Python call's arguments.

The rule: an option is an argument of the same name with ``_`` for ``-``, ``name=`` or with its value ``name=value``. Left alone
is what stands in a command that somebody is told to type ("thole status --list"), and what other programs have.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, Mapping

# Options that have another name here, and those that are variables.
_NAMES = {"not": "not_on", "ranks": "nproc_per_node"}
_VARIABLES = {"machine": "THOLE_MACHINE", "state-dir": "THOLE_STATE_DIR", "queue-dir": "THOLE_QUEUE_DIR"}
_FLAGS = frozenset(("share", "trust-claims", "hold", "if-absent", "snapshot", "strict", "balanced", "lend"))
_OF_OTHERS = frozenset(("cap-add", "gpu-reset", "now", "user", "pid", "device", "privileged"))
# Fields of a request in thole.h that have another name as arguments.
FIELDS = {
    "memory_mib": "memory",
    "max_load_percent": "max_load",
    "max_memory_percent": "max_memory",
    "not": "not_on",
    "ranks": "nproc_per_node",
}

_COMMAND = re.compile(r"\bthole (?:--?[a-z]|[a-z])[^;\n]*|\bsudo [^;\n]*|\btaskset [^;\n]*")
_VALUE = r'"[^"]*"|[A-Z][A-Z_,]*\b|\d[\w.%-]*(?::\w+)*|any\b|mine\b|none\b|uuid\b|index\b|auto\b|dgx-a100\b'
_OPTION = re.compile(rf"(?<![\w-])--(?P<name>[a-z][a-z-]*)(?:[= ](?P<value>{_VALUE}))?(?P<after>[:?\"]|$)?")


def of_field(message: str, names: Mapping[str, str] = FIELDS) -> str:
    """The library's "request.memory_mib: …" as it is said of the argument.

    >>> of_field("request.memory_mib: expected a whole number"), of_field("request.bind.mode: no", {"bind": "how"})
    ('memory: expected a whole number', 'how.mode: no')
    """
    field = re.match(r"request\.(\w+)(?=[\w.\[\]]*: )", message)
    if not field:
        return message
    return names.get(field[1], field[1]) + message[field.end() :].replace("; null when", "; None when")


def texts_in(said: Any) -> Iterator[str]:
    """Every text within what was said in a call: lists and dicts of texts, in any depth.

    >>> list(texts_in({"on": ["0", "GPU-1"], "gpus": 2}))
    ['0', 'GPU-1']
    """
    if isinstance(said, str):
        yield said
    elif isinstance(said, (list, tuple)):
        for one in said:
            yield from texts_in(one)
    elif isinstance(said, Mapping):
        yield from texts_in(list(said.values()))


def in_arguments(text: str, said: Iterable[str] = ()) -> str:
    """A message or a hint in the words of a call. What the caller ``said`` itself stays as it is.

    >>> in_arguments("2 GPUs asked for; --on names 1"), in_arguments("--share --memory 8G")
    ('2 GPUs asked for; on= names 1', 'share=True, memory="8G"')
    >>> in_arguments("thole status --list names them")
    'thole status --list names them'
    >>> in_arguments('no such GPU "--help"; --on names it', ["--help"])
    'no such GPU "--help"; on= names it'
    """
    if "-" not in text:
        return text
    own = sorted({word for word in said if _OPTION.search(word) or "-g" in word}, key=len, reverse=True)
    if own:  # longest first
        parts = re.split("(" + "|".join(map(re.escape, own)) + ")", text)
        return "".join(part if number % 2 else in_arguments(part) for number, part in enumerate(parts))
    text = re.sub(r"\bsee: thole (\w+) --help", r"see: help(tholepin.\1)", text)
    text = re.sub(r'^\w+: unknown option "--([\w-]+)"', lambda found: f'there is no argument "{_name(found[1])}"', text)
    text = re.sub(r"--([\w-]+) takes no value, got", lambda found: f"{_name(found[1])}: expected True or False, got", text)
    text = re.sub(r"--(queue-dir|state-dir), THOLE_\w+", lambda found: _VARIABLES[found[1]], text)
    said, at = "", 0
    for command in _COMMAND.finditer(text):
        said += _translated(text[at : command.start()]) + command[0]
        at = command.end()
    return said + _translated(text[at:])


def _name(option: str) -> str:
    return _NAMES.get(option, option.replace("-", "_"))


def _translated(text: str) -> str:
    text = _OPTION.sub(_argument, re.sub(r"(?<![\w-])-g (\d+)", r"--gpus \1", text))
    text = re.sub(r"(?<![\w-])-g(?=:)", "gpus", text)
    return re.sub(r"(\w=[^\s;,]+) (?=\w+=\S)", r"\1, ", text)


def _argument(found: re.Match[str]) -> str:
    option, value, after = found["name"], found["value"], found["after"] or ""
    if option in _OF_OTHERS:
        return found[0]
    if option in _VARIABLES:
        return _VARIABLES[option] + (f"={value}" if value else "") + after
    if option == "no-wait":
        return f"wait=0{after}"
    name = _name(option)
    if value is None and after:
        return name + after  # "--gpus: expected …", and what is quoted
    if value is None:
        return f"{name}=True" if option in _FLAGS else f"{name}="
    literal = value.isdigit() or value[0].isupper() or value.startswith('"')
    return f"{name}={value}{after}" if literal else f'{name}="{value}"{after}'
