"""``%load_ext tholepin``: a notebook shows the GPUs that its kernel holds.

``%thole`` shows them again. A kernel that holds none is told how to get one; nothing is claimed behind anybody's back.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from typing import Protocol

    class Shell(Protocol):
        """What is needed of IPython's InteractiveShell."""

        def register_magic_function(self, func: Any, magic_kind: str, magic_name: str) -> None: ...


def load_ipython_extension(shell: Shell) -> None:
    """IPython calls this for ``%load_ext tholepin``: registers ``%thole`` and shows what the kernel holds.

    >>> class Shell:
    ...     def register_magic_function(self, func, magic_kind, magic_name):
    ...         self.magic = func
    >>> load_ipython_extension(Shell())
    no GPU is held: tholepin.claim(1) in the first cell takes one, or choose a kernel made by `thole jupyter install`
    """
    if not hasattr(shell, "register_magic_function"):
        raise errors.WrongType(f"shell: expected IPython's, got {shell!r}")
    shell.register_magic_function(lambda line: print(held()), "line", "thole")
    print(held())


def unload_ipython_extension(shell: Shell) -> None:
    """IPython calls this for ``%unload_ext tholepin``. The claim stays: it belongs to the process.

    >>> unload_ipython_extension(None)
    """


def held() -> str:
    """The GPUs that this process holds or is inside of, one a line as the code addresses them; else how to get one.

    >>> import tholepin
    >>> with tholepin.claim(1, on=[3]):
    ...     print(held())                       # doctest: +ELLIPSIS
    cuda:0  GPU 3  A100-SXM4-80GB  80 GiB  GPU-...
    claim ... of this process
    """
    gpus = _gpus()
    claim = os.environ.get("THOLE_CLAIM", "")
    if not gpus or not claim:
        return (
            "no GPU is held: tholepin.claim(1) in the first cell takes one, or choose a kernel made by `thole jupyter install`"
        )
    rows = []
    for number, gpu in enumerate(gpus):
        prefix = {"nvidia": "cuda", "amd": "cuda", "intel": "xpu"}.get(gpu.get("vendor", ""), "gpu")  # what PyTorch says
        memory = f"{gpu['memory_mib'] / 1024:.0f} GiB" if gpu.get("memory_mib") else "? GiB"
        name = gpu.get("key") or gpu["uuid"]
        rows.append(f"{prefix}:{number}  GPU {gpu['index']}  {_short(gpu.get('model', ''))}  {memory}  {name}")
    alive, until = _standing(claim)
    if not alive:
        rows.append(f"claim {claim} has ended: restart the kernel")
    else:
        rows.append(f"claim {claim} of this process{f', until {until}' if until else ''}")
    return "\n".join(rows)


def _gpus() -> list[dict[str, Any]]:
    try:
        gpus = json.loads(os.environ.get("THOLE_GPUS", "[]"))
    except ValueError:
        return []
    return gpus if isinstance(gpus, list) else []


def _short(model: str) -> str:
    return model.replace("NVIDIA ", "")


def _standing(claim: str) -> tuple[bool, str]:
    """Whether the outermost claim is held, and its declared end; the driver is not waited for longer than a snapshot takes."""
    from . import _native

    outermost = claim.split("/")[0]
    for holding in _native.call_json("thole_snapshot", _native.machine())["claims"]:
        if holding["id"] == outermost:
            return True, holding.get("until") or ""
    return False, ""
