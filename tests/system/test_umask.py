# ctest: timeout 900
"""Under a umask that takes the owner's bits from all that a process makes, everything works, and nothing is left behind that
its owner could not use. Never as root: nothing is closed to root."""
import concurrent.futures

import pytest

from hostile import USERS, interpreter, lab  # noqa: F401 (lab: a fixture)

UMASKS = ["0177", "0777", "0111", "0477"]
CLAIM = """
import tholepin
claim, one = tholepin.claim(2), tholepin.claim(1)          # the second one lies in the first
print("claimed", len(claim.uuids), len(one.uuids))
"""


class User:
    """alice, whose shell has this umask."""

    def __init__(self, lab, umask, **variables):
        self.lab, self.umask, self.variables = lab, umask, variables

    def __call__(self, *words):
        return self.lab.run("alice", "sh", "-c", f'umask {self.umask}; exec "$@"', "sh", *words, check=True, **self.variables)

    def thole(self, *words):
        return self(self.lab.program, *words).stdout

    def queue(self):
        job = self.thole("submit", "-q", "--", "echo", "from the queue").strip()
        self.thole("wait", job)
        assert "from the queue" in self.thole("logs", job)

    def tour(self, folder):
        again = (self.lab.program, "run", "-q", "-g", "1", "--")
        assert self.thole("run", "-g", "1", "--", "echo", "ran") == "ran\n"
        assert self.thole("run", "-g", "2", "--", *again, *again, "echo", "inside") == "inside\n"
        assert self.thole("run", "--share", "--memory", "1G", "--", "echo", "shared") == "shared\n"
        assert self.thole("--machine", "2xA100", "run", "--", "echo", "simulated") == "simulated\n"
        claim = self.thole("claim", "-q", "-g", "1").strip()
        assert [one["id"] for one in self.lab.claims("alice")] == [claim]
        self.thole("extend", claim, "2h")
        self.thole("release", claim)
        assert sorted(self.thole("map", "-g", "2", "--", "echo", "{}", ":::", "a", "b").split()) == ["a", "b"]
        assert self(interpreter(), "-c", CLAIM).stdout == "claimed 2 1\n"
        self.queue()
        job = self.thole("submit", "-q", "-C", folder, "--snapshot", "--", "cat", "below/text").strip()
        self.thole("wait", job)
        assert "copied" in self.thole("logs", job)
        self.thole("doctor")


def closed_to_their_owner(lab):
    """What lies in alice's places, and what she could not use of it."""
    own = f"thole-{USERS['alice']}"
    home = f"{lab.folder}/home/alice"
    places = (home, f"/tmp/{own}", f"/var/tmp/{own}", "/run/thole", "/run/lock", "/run/user", "/tmp/thole")
    mine = ("-user", str(USERS["alice"]), "!", "-type", "l")
    found = lab.run("root", "find", *places, *mine, "-printf", "%y %m %p\n").stdout
    lines = [line.split(" ", 2) for line in found.splitlines()]
    assert len(lines) > 20, found
    return [path for kind, mode, path in lines if ~int(mode, 8) & (0o700 if kind == "d" else 0o600)]


@pytest.mark.parametrize("lab", ["plain", "runtime"], indirect=True)
@pytest.mark.parametrize("initialised", [True, False])
@pytest.mark.parametrize("umask", UMASKS)
def test_everything_works_and_is_left_open_to_its_owner(lab, umask, initialised):
    folder = lab.folder / "home/code/below"
    folder.mkdir(parents=True)
    (folder / "text").write_text("copied\n")
    if initialised:
        lab.init()
    User(lab, umask).tour(folder.parent)
    User(lab, umask, HOME="/nonexistent").queue()
    assert closed_to_their_owner(lab) == []
    User(lab, "022").tour(folder.parent)


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
@pytest.mark.parametrize("initialised", [True, False])
@pytest.mark.parametrize("umask", ["0777", "0477"])
def test_many_that_make_everything_at_once_do_not_find_it_closed(lab, umask, initialised):
    user = User(lab, umask)
    if initialised:
        lab.init()

    def make(number):
        user.thole("run", "-q", "-g", "1", "--", lab.program, "run", "-q", "-g", "1", "--", "true")
        return user.thole("submit", "-q", "-g", "0", "--", "true")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(make, range(16)))) == 16
    user.thole("wait", "all")
    assert closed_to_their_owner(lab) == []


@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_a_directory_that_its_user_has_closed_to_himself_is_named_and_an_empty_one_replaced(lab):
    lab.init()
    path = f"/tmp/thole-{USERS['alice']}"
    within = (lab.program, "run", "-q", "-g", "1", "--")
    lab.run("alice", "sh", "-ec", f"mkdir -m 0700 {path}; touch {path}/something; chmod 0 {path}", check=True)
    done = lab.run("alice", *within, *within, "true")
    assert done.returncode == 69
    assert f"you cannot look into your own directory: {path}" in done.stderr and f"chmod 700 {path}" in done.stderr, done.stderr
    lab.run("root", "sh", "-ec", f"rm {path}/*", check=True)       # as an earlier version left it
    assert lab.run("alice", *within, *within, "echo", "inside", check=True).stdout == "inside\n"


@pytest.mark.parametrize("umask,mode", [("077", 0o600), ("027", 0o640), ("002", 0o664), ("0777", 0o600)])
@pytest.mark.parametrize("lab", ["plain"], indirect=True)
def test_what_a_user_has_named_has_the_mode_that_his_umask_leaves(lab, umask, mode):
    user, home = User(lab, umask), lab.folder / "home/alice"
    user.thole("--machine", "2xA100", "capture", "--output", f"{home}/machine.json")
    user.thole("run", "-q", "-g", "1", "--status-file", f"{home}/status.json", "--", "true")
    user.thole("jupyter", "install", "--gpus", "1")
    results = [*home.glob("*.json"), *home.rglob("kernel.json")]
    assert sorted(path.name for path in results) == ["kernel.json", "machine.json", "status.json"]
    assert {path.stat().st_mode & 0o777 for path in results} == {mode}
