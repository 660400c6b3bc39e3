"""Every public name of the drop-ins has a docstring, and the examples in it are true: each is run on a DGX A100."""

# ctest: timeout 600
import subprocess
import sys

import pytest
from compat_tools import LIMIT, compat

PUBLIC = {
    "tholepin.compat": ["enable"],
    "tholepin.compat.picks": ["snapshot", "take", "wait"],
    "GPUtil": ["GPU", "getGPUs", "getAvailable", "getAvailability", "getFirstAvailable", "showUtilization"],
    "safe_gpu.safe_gpu": [
        "GPUOwner", "NvidiasmiError", "PyCudaPlaceholder", "PytorchPlaceholder", "SafeLock", "SafeUmask",
        "TensorflowPlaceholder",
        "claim_gpus", "get_free_gpus", "get_nvidia_smi_value", "is_single_gpu_display_mode", "pytorch_placeholder",
        "release_gpus",
        "tensorflow_placeholder",
    ],
    "gpu_affinity.gpu_affinity": [
        "Device", "GPUAffinityError", "Mode", "Multithreading", "Scope", "build_thread_siblings_dict", "check_affinities",
        "check_core_count", "get_affinities", "get_all", "get_grouped_affinities", "get_single", "get_single_unique",
        "get_thread_siblings_list", "get_unique", "group_by_node", "group_by_siblings", "group_list_by_key", "set_affinity",
        "ungroup_all_and_check_count", "ungroup_by_nodes", "ungroup_by_siblings",
    ],
    "dragon": ["in_dragon"],
    "dragon.infrastructure.connection": ["Connection"],
    "dragon.infrastructure.facts": ["PMIBackend"],
    "dragon.infrastructure.policy": ["Policy", "Policy.get_sdict", "Policy.merge", "Policy.global_policy"],
    "dragon.native": [],
    "dragon.native.barrier": ["Barrier"],
    "dragon.native.event": ["Event"],
    "dragon.native.lock": ["Lock"],
    "dragon.native.machine": [
        "Node", "System", "System.cpu_count", "System.gpu_policies", "System.hostname_policies", "cpu_count", "current",
    ],
    "dragon.native.pool": ["Pool"],
    "dragon.native.process": [
        "Popen", "Process", "Process.children", "Process.parent", "ProcessTemplate",
        "ProcessTemplate.get_original_python_parameters", "ProcessTemplate.get_sdict", "current",
    ],
    "dragon.native.process_group": ["ProcessGroup"],
    "dragon.native.queue": ["Queue"],
}  # fmt: skip

# Runs the examples of one object, with the names of its module, as they stand. This host need not have a DGX A100's CPUs.
RUN = """
import doctest, functools, importlib, inspect, os, sys
os.sched_getaffinity = lambda pid: set(range(256))
module = importlib.import_module(sys.argv[1])
value = functools.reduce(getattr, filter(None, sys.argv[2].split(".")), module)
names = vars(inspect.getmodule(value)).copy()
tests = doctest.DocTestFinder(recurse=False).find(value, sys.argv[2] or sys.argv[1], globs=names, module=False)
runner = doctest.DocTestRunner(verbose=False)
for test in tests:
    runner.run(test)
print(runner.tries)
sys.exit(runner.failures)
"""


@pytest.mark.parametrize("module, name", [(module, name) for module, names in PUBLIC.items() for name in ["", *names]])
def test_example(module, name):
    answer = subprocess.run(
        compat("--", sys.executable, "-c", RUN, module, name), capture_output=True, text=True, timeout=LIMIT
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert name == "" or int(answer.stdout.splitlines()[-1]) > 0, "no example"
