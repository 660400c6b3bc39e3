"""CMake's presets: each is there to configure, to build and to test, and what is only there for some tests may be missing."""
import json
import subprocess

from run_tools import BUILD
from test_install import SOURCE, run


def test_who_configures_by_a_preset_builds_and_tests_by_it():
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())
    configured, *others = ({preset["name"] for preset in presets[kind] if not preset.get("hidden")}
                           for kind in ("configurePresets", "buildPresets", "testPresets"))
    assert {"dev", "release"} <= configured and others == [configured, configured]


def test_without_rapidcheck_only_the_properties_are_missing(tmp_path):
    as_here = ("CMAKE_CXX_COMPILER:", "CMAKE_INCLUDE_PATH:", "Python3_EXECUTABLE:")
    found = [f"-D{line}" for line in (BUILD / "CMakeCache.txt").read_text().splitlines() if line.startswith(as_here)]
    told = subprocess.run(["cmake", "-S", SOURCE, "-B", tmp_path, "--preset", "dev", "-DRAPIDCHECK=", *found],
                          cwd=SOURCE, capture_output=True, text=True)
    assert told.returncode == 0 and "librapidcheck-dev" in told.stderr, told.stderr
    targets = (tmp_path / "build.ninja").read_text()
    assert "thole_unit_tests" in targets and "thole_property_tests" not in targets
    shown = run("ctest", "-R", "^property$", cwd=tmp_path)
    assert "property (Skipped)" in shown, shown
