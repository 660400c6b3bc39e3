"""The fixture `run`: the words before a command, once for the probe of the process module and once for `thole run`."""
import pytest

from run_tools import PROBE, THOLE


@pytest.fixture(params=["probe", "thole"])
def run(request, tmp_path):
    if request.param == "probe":
        return [PROBE]
    return [THOLE, "--machine", "8xA100", "--state-dir", str(tmp_path / "state"), "-q", "run", "--"]
