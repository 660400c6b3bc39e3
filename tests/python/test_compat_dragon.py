"""The guide's programs and a probe of what they stand for, below `thole compat`, beside what dragonhpc 0.14.1 showed.

That is recorded below compat/dragon (how: README.md there): on four GPUs that a stand-in for nvidia-smi told it of. Here a
simulated machine has four. With THOLE_TEST_DRAGON, a Python 3.12 that has dragonhpc 0.14.1, it is asked again."""

# ctest: timeout 900
import collections
import os
import pathlib
import re
import subprocess

import pytest
from compat_tools import LIMIT, ROOT, compat

HERE = pathlib.Path(__file__).parent / "compat/dragon"
EXAMPLES = ROOT / "examples/dragon"
DRAGON = os.environ.get("THOLE_TEST_DRAGON")
PROGRAMS = ("gpu_policies.py", "gpu_pool.py", "gpu_process_group.py")

# Label of a line of the probe -> why ours says something else.
DIFFERENT = {
    "gpu_affinity no list": "Dragon's runtime reports its own PolicyError as a ProcessError",
    "no policy": "left as it is; Dragon writes a list of all",
    "absent GPU": "an error; Dragon's process sees every GPU",
    "another host": "the same: Dragon's is a ValueError within its runtime",
    "after": "close() gives the GPUs back and does not raise again what join() has raised",
    "kill before start": "Dragon's manager fails on the way to the error that it means",
    "full": "queue.Full, which Dragon's documentation promises",
}


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch):
    monkeypatch.setenv("THOLE_MACHINE", "4xA100")
    monkeypatch.setenv("PYTHONUNBUFFERED", "")  # else two writes make a line
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE / "packages"), os.environ.get("PYTHONPATH")])))


def below_thole(program, *arguments):
    return compat("--", "python3", str(program), *arguments)


def below_dragon(program, *arguments):
    return [os.path.join(os.path.dirname(DRAGON), "dragon"), "-s", str(program), *arguments]


def output(line, **more):
    done = subprocess.run(line, capture_output=True, text=True, timeout=3 * LIMIT, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seen(program, said):
    """What the workers of one of the guide's programs saw, as guide_0.14.1.txt writes it."""
    if program == "gpu_policies.py":
        workers, results = re.search(r"(\d+) workers say: (\[.*?\])", said, re.DOTALL).groups()
        items = re.findall(r"\((\d+), '(\d)'\)", results)
        yield f"workers {workers}"
        yield "items " + " ".join(number for number, _ in items)
        # which of the workers take how much is chance
        yield "GPUs among " + ("0 1 2 3" if {gpu for _, gpu in items} <= set("0123") else str(items))
    elif program == "gpu_pool.py":
        for gpu, workers in sorted(collections.Counter(re.findall(r"Hello!, I have GPU=(\S*) on host=", said)).items()):
            yield f"GPU {gpu}: {workers} workers"
    else:
        shown = re.findall(r"ID (\d+) has GPU=(\S*) on host=", said)
        yield from (f"ID {number}: GPU {gpu}" for number, gpu in sorted(shown, key=lambda one: int(one[0])))


def recorded(program):
    parts = re.split(r"^# (.*)\n", (HERE / "guide_0.14.1.txt").read_text(), flags=re.MULTILINE)
    return parts[parts.index(program) + 1].splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.usefixtures("all_claims_end_on_four")
def test_the_guides_programs_show_what_dragon_showed(program):
    said = output(below_thole(EXAMPLES / program))
    assert list(seen(program, said)) == recorded(program)
    assert set(re.findall(r"on host=(.*)", said)) <= {os.uname().nodename}


@pytest.fixture
def all_claims_end_on_four():
    yield
    import tholepin

    with tholepin.claim(4, wait=LIMIT):
        pass


def lines(text):
    """Label or whole line -> what is said; exceptions as the set of what they are."""
    found = {}
    part = ""
    for line in text.splitlines():
        part = line if line.startswith("---- ") else part
        label, raises, kinds = line.partition(" raises ")
        arrow = line.partition(" -> ")
        if raises:
            found[part, label] = set(kinds.split())
        elif arrow[1]:
            found[part, arrow[0]] = arrow[2]
        else:
            found.setdefault((part, ""), []).append(line)
    return found


def test_a_probe_of_what_programs_see_says_what_dragon_said(tmp_path):
    output(below_thole(HERE / "probe.py", str(tmp_path / "ours")))
    theirs, ours = lines((HERE / "probe_0.14.1.txt").read_text()), lines((tmp_path / "ours").read_text())
    assert theirs.keys() == ours.keys()
    other = {label for (_, label), said in theirs.items() if not same(said, ours[_, label])}
    assert other == set(DIFFERENT)
    for place, said in theirs.items():
        assert place[1] in DIFFERENT or same(said, ours[place]), place


def same(theirs, ours):
    return theirs <= ours if isinstance(theirs, set) and isinstance(ours, set) else theirs == ours


@pytest.mark.skipif(not DRAGON, reason="THOLE_TEST_DRAGON names no Python that has dragonhpc 0.14.1 (docs/compat.md)")
class TestDragonItself:
    """Says still what is recorded."""

    @pytest.fixture(autouse=True)
    def its_gpus(self, monkeypatch):
        monkeypatch.setenv("PATH", f"{os.path.dirname(DRAGON)}:{HERE / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(HERE / "packages"))

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_shows_what_is_recorded(self, program, tmp_path):
        assert list(seen(program, output(below_dragon(EXAMPLES / program), cwd=tmp_path))) == recorded(program)

    def test_says_what_is_recorded(self, tmp_path):
        output(below_dragon(HERE / "probe.py", str(tmp_path / "theirs")), cwd=tmp_path)
        assert (tmp_path / "theirs").read_text() == (HERE / "probe_0.14.1.txt").read_text()
