"""A user who may have few processes: what cannot be done is refused in words, and leaves no claim behind."""
import pytest

from hostile import end, lab  # noqa: F401 (the fixture)

REASONS = ("ulimit -u", "cannot be read", "unreadable", "could not be asked")
COMMANDS = [["status"], ["why"], ["run", "--no-wait", "-g", "1", "--", "echo", "ran"], ["claim", "--no-wait"], ["release"],
            ["run", "--no-wait", "--on", "0", "--", "echo", "ran"]]


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_with_few_processes_a_claim_is_made_or_refused_in_words(lab, most):
    lab.init()
    bob = lab.hold("bob", "--on", "0")
    for words in COMMANDS:
        done = lab.run("alice", "prlimit", f"--nproc={most}", "--", lab.program, *words)
        said = done.stdout + done.stderr
        made = words[0] == "claim" and done.returncode == 0
        assert done.returncode in (0, 64, 69, 75, 125), (words, done.returncode, said)
        if done.returncode in (69, 125):
            assert any(reason in said for reason in REASONS), (words, said)
        if done.returncode == 64:
            assert words == ["release"] and "no such claim" in said, said
        if "--on" in words:
            assert done.returncode != 0 and "ran" not in done.stdout, "bob has it"
        owners = [claim["user"] for claim in lab.claims()]
        assert owners.count("bob") == 1 and owners.count("alice") == made, (words, owners)
    end(bob)
