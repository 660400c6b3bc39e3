"""The name `thole` on PyPI is somebody else's: nothing may lead a user there, and nothing says that ours is there before it
is."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = {".cmake", ".conf", ".cpp", ".hpp", ".in", ".ipynb", ".md", ".py", ".toml", ".txt", ".yml", ""}
# The program's and the package's own name as something to be fetched; a path, or a wheel's file, is none.
ADVICE = re.compile(r"""(?x) (?: pip3? | pipx | uv | conda | mamba ) [^\n`"]* \s (?: install | add | download | wheel ) \s
                        (?: -\S+ \s | [A-Za-z0-9][\w.\[\]=<>~-]* \s )* ['"]? (?: thole | tholepin ) (?! [\w/-] | \.\w ) """)


def advice_in(text):
    return [match[0] for match in ADVICE.finditer(text) if "--no-index" not in match[0]]


@pytest.mark.parametrize(
    "line",
    [
        "pip install thole",
        "pip install thole.",
        "python -m pip install -U thole, then",
        "pip3 install 'thole[x]'",
        "uv pip install numpy thole",
        "hint=\"pip install tholepin\"",
        "uv add tholepin",
        "pip download thole --no-deps",
    ],
)
def test_bad_advice_is_recognised(line):
    assert advice_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install .",
        "pip install ./thole",
        "pip install tholepin-0.1.0-py3-none-manylinux_2_36_x86_64.whl",
        "pip install thole/dist/x.whl",
        "`pip install .` in a checkout of thole",
        "pip install . && thole",
        "pip install --no-index --find-links DIR tholepin",
    ],
)
def test_good_advice_is_not(line):
    assert not advice_in(line)


def test_nothing_advises_to_install_a_strangers_package():
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    files = [ROOT / name for name in names if name] or [path for path in ROOT.rglob("*") if "build" not in path.parts]
    looked = {
        path: path.read_text(errors="replace")
        for path in files
        if path.suffix in TEXT and path.is_file() and path.name != pathlib.Path(__file__).name
    }
    assert len(looked) > 100
    assert {str(path.relative_to(ROOT)): advice_in(text) for path, text in looked.items() if advice_in(text)} == {}


def test_the_strangers_name_is_free_for_it():
    """Both packages in one environment: ours brings no module `thole`, and takes nothing from one that is there."""
    code = ("import sys; sys.modules['thole'] = None; import tholepin; tholepin.gpus(); import tholepin.compat; "
            "tholepin.compat.enable(); import GPUtil")
    subprocess.run([sys.executable, "-c", code], check=True)
    import importlib.metadata as metadata

    owners = [one for one in metadata.distributions() if one.metadata["Name"] == "tholepin"]
    for one in owners:
        assert not [str(file) for file in one.files or [] if str(file).startswith("thole/")]
