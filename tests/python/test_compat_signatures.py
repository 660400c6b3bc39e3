"""The drop-ins' public names and how they are called, beside the originals' as they were written down."""
import inspect

import pytest
from compat_tools import run

EXCLUDED = "includeNan=False, excludeID=[], excludeUUID=[])"

# Of GPUtil 1.4.0 and safe-gpu 2.0.0, by inspect.signature; annotations, where the original has none, are left out.
GPUTIL = {
    "GPU": "(ID, uuid, load, memoryTotal, memoryUsed, memoryFree, driver, gpu_name, serial, display_mode, display_active, "
           "temp_gpu)",
    "getGPUs": "()",
    "getAvailable": "(order='first', limit=1, maxLoad=0.5, maxMemory=0.5, memoryFree=0, " + EXCLUDED,
    "getAvailability": "(GPUs, maxLoad=0.5, maxMemory=0.5, memoryFree=0, " + EXCLUDED,
    "getFirstAvailable": "(order='first', maxLoad=0.5, maxMemory=0.5, attempts=1, interval=900, verbose=False, " + EXCLUDED,
    "showUtilization": "(all=False, attrList=None, useOldCode=False)",
    "GPUtil.safeFloatCast": "(strNumber)",
}
SAFE_GPU = {
    "safe_gpu.get_free_gpus": "()",
    "safe_gpu.is_single_gpu_display_mode": "()",
    "safe_gpu.get_nvidia_smi_value": "(nvidia_smi_lines, key)",
    "safe_gpu.SafeLock": "(fd, logger=None)",
    "safe_gpu.SafeUmask": "(working_mask)",
    "release_gpus": "()",
}
UNANNOTATED = """
import inspect, {module}
def shown(signature):
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(bare))
for name in {names!r}:
    print(name, shown(inspect.signature(eval("{module}." + name))))
"""


@pytest.mark.parametrize("module, expected", [("GPUtil", GPUTIL), ("safe_gpu", SAFE_GPU)])
def test_signatures_are_the_originals(module, expected):
    said = run(UNANNOTATED.format(module=module, names=list(expected)))
    assert dict(line.split(" ", 1) for line in said.splitlines()) == expected


def test_what_a_package_shows_of_itself():
    said = run(
        "import GPUtil; print(sorted(name for name in dir(GPUtil) if not name.startswith('__')), '__version__' in dir(GPUtil))"
    )
    names = ["GPU", "GPUtil", "getAvailability", "getAvailable", "getFirstAvailable", "getGPUs", "showUtilization"]
    assert said == f"{names} True\n"


def test_a_number_of_nvidia_smi_is_cast_safely():
    assert (
        run("from GPUtil.GPUtil import safeFloatCast as cast; print(cast('31'), cast(' 4.5'), cast('[N/A]'))")
        == "31.0 4.5 nan\n"
    )


def test_annotations_of_gpu_affinity_are_types():
    said = run("""
import enum, inspect, typing, gpu_affinity
found = inspect.signature(gpu_affinity.set_affinity)
print([one.name for one in found.parameters.values() if isinstance(one.annotation, str)])
print([name for name, one in found.parameters.items() if isinstance(one.annotation, type)
       and issubclass(one.annotation, enum.Enum)])
print(found.parameters["max_physical_cores"].annotation == typing.Optional[int], found.return_annotation == set[int])
""")
    assert said == "[]\n['mode', 'scope', 'multithreading']\nTrue True\n"
