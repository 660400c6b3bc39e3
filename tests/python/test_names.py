# ctest: timeout 900
"""Every public name is documented with an example, and the examples are true."""
import ast
import doctest
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
from unittest import mock

import pytest

import tholepin

NAMES = [name for name in tholepin.__all__ if name != "__version__"]
# Importable without what is not there (IPython) and without effect on this process.
MODULES = [
    module.name for module in pkgutil.walk_packages(tholepin.__path__, "tholepin.") if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_found_and_documented_with_an_example(name):
    value = getattr(tholepin, name)
    assert name in dir(tholepin)
    text = inspect.getdoc(value) or ""
    assert len(text.split("\n\n")[0]) > 20
    assert ">>> " in text


def test_a_name_that_is_not_there_is_said_so():
    with pytest.raises(AttributeError, match="nonesuch"):
        tholepin.nonesuch


def test_no_name_is_also_a_modules():
    assert not {f"tholepin.{name}" for name in NAMES} & set(MODULES)


@pytest.mark.parametrize("name", ["tholepin", *MODULES])
def test_the_examples_are_true(name):
    try:
        module = importlib.import_module(name)
    except ImportError as missing:
        pytest.skip(f"{name} needs what is not installed: {missing}")
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in finder.find(module):
        with mock.patch.dict(os.environ):  # what one sets, the next does not see
            runner.run(example)
    assert runner.summarize().failed == 0


PACKAGE = pathlib.Path(tholepin.__file__).parent


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_argument_of_a_docstring_begins_a_line(path):
    """What goes on is indented further: a line that was broken anew elsewhere would hide the next argument."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        sections = re.findall(r"^(?:Args|Attributes|Raises):\n((?:[ ]{4}.*\n?|\n)*)", text or "", re.M)
        for line in "\n".join(sections).splitlines():
            assert not re.match(r"    \S", line) or re.match(r"    [\w*]+(, [\w*]+)*: ", line), (node, line)


def test_the_versions_are_one():
    from tholepin import _native

    assert tholepin.__version__ == _native.libthole.thole_version().decode()
