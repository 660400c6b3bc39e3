"""README.md and docs/: every command line of thole in them is one that the program takes: verbs, options, values."""
import json
import pathlib
import re
import shlex
import subprocess

import pytest

from run_tools import THOLE

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GLOBAL_WITH_VALUE = ("--machine", "--state-dir", "--config")
STOPS = ("|", "||", "&&", "&", ";", ")", "<", ">", "2>", "2>&1", ">>", "&>")


def lines(page):
    """Code lines and code spans that begin with the program, or have it in $( ) or after a pipe."""
    text = page.read_text()
    code = re.findall(r"^(?:    |\t)(?:[$>] )?(.*)$", text, re.M)
    spans = [span.replace("\n", " ") for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^    .*$", "", text, flags=re.M))]
    table = [span.replace("\\|", "|") for span in spans]
    for line in code + table:
        for match in re.finditer(r"(?:^|[|;&(] *|\bsudo |\b[A-Z_]+=\S* |\bdo |\benv .*?)(thole (?!--version).*)", line):
            yield match[1]


def words(line):
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
        lexer.whitespace_split, lexer.commenters = True, "#"
        split = list(lexer)
    except ValueError:                           # a quote that ends on another line
        return None
    for at, word in enumerate(split):
        if word in STOPS or set(word) <= set("|&;()<>"):
            return split[:at]
    return split


def asked_for_help(split):
    """The line with --help behind its verb: options are read then, and nothing is done. None where it has no verb."""
    at = 1
    while at < len(split) and split[at].startswith("-"):
        at += 2 if split[at] in GLOBAL_WITH_VALUE else 1
    return [*split[:at + 1], "--help", *split[at + 1:]] if at < len(split) else None


def is_pattern(line):
    """A form rather than a line: capitals and dots stand for something."""
    return bool(re.search(r"\b[A-Z]{1,12}\b(?!=)|…|\.\.\.|\[|\{|<|\$", line))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_line_is_one_that_the_program_takes(page):
    wrong = []
    for line in sorted(set(lines(page))):
        split = words(line)
        command = asked_for_help(split) if split else None
        if not command or not re.fullmatch("[a-z]+", command[command.index("--help") - 1]):
            continue                             # COMMAND, or machinery of thole's own
        done = subprocess.run([THOLE, *command[1:]], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        unknown = "unknown option" in done.stderr or "unknown command" in done.stderr
        only_named = "needs a value" in done.stderr          # `thole run --time`, where the text is about that option
        if unknown or (done.returncode != 0 and not only_named and not is_pattern(line)):
            wrong.append(f"{line}\n    {done.stderr.strip()}")
    assert not wrong, "\n".join(wrong)


def test_the_sample_of_plan_is_what_it_prints():
    page = (ROOT / "docs/plan.md").read_text()
    line, shown = re.search(r"^    \$ (echo .*thole plan --batch)\n    (\{.*\})$", page, re.M).groups()
    request = line.partition("'")[2].rpartition("'")[0]
    done = subprocess.run([THOLE, "plan", "--batch"], input=request, capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    cut = json.loads(shown.replace(",…]", "]"))
    assert {**answer, "ranks": answer["ranks"][:1]} == cut


def test_lines_are_found():
    found = {line for page in PAGES for line in lines(page)}
    assert len(found) > 250
    assert {"thole why 3", "thole claim --shell"} <= {" ".join(words(line) or []) for line in found}
