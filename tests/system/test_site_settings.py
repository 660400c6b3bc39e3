"""The site's settings, /etc/thole/config.toml: what cannot be heeded is refused, for a file that some heed and others pass over
would give one GPU two owners; and a group never seems to close what is open."""
import json

import pytest

from hostile import SITE_GID, SITE_GROUP, end, lab  # noqa: F401 (a fixture)
from init_tools import access, claims_one, in_one_surrounding

CONFIG = "/etc/thole/config.toml"
BOOK = "/var/tmp/book"


@pytest.fixture
def site(lab):
    """Writes the site's file."""
    lab.run("root", "mkdir", "-p", "/etc/thole", check=True)

    def write(text, mode="644", owner="root"):
        lab.run("root", "sh", "-ec", f"umask 077; cat > {CONFIG}; chown {owner} {CONFIG}; chmod {mode} {CONFIG}", input=text,
                check=True)
    return write


def configuration_of(lab, user):
    told = json.loads(lab.thole(user, "doctor", "--json").stdout)
    return [check for check in told["checks"] if check["name"] == "configuration"]


def access_of(lab, folder):
    return lab.run("root", "find", folder, "-printf", r"%f %m %G\n", check=True).stdout


# A group is of /run/thole alone.

@in_one_surrounding
def test_a_group_for_another_directory_is_refused_with_the_way_to_have_one(lab, site):
    assert lab.thole("root", "--state-dir", BOOK, "init").returncode == 0
    before = access_of(lab, BOOK)
    for words in (["--group", SITE_GROUP], ["--no-group"]):
        done = lab.thole("root", "--state-dir", BOOK, "init", *words)
        assert done.returncode == 64 and done.stdout == "" and "chmod 755" in done.stderr, done.stderr
        assert f"sudo install -d -m 750 -g GROUP {BOOK}" in done.stderr
    assert access_of(lab, BOOK) == before
    lab.run("root", "install", "-d", "-m", "750", "-g", SITE_GROUP, BOOK, check=True)
    lab.thole("root", "--state-dir", BOOK, "init", check=True)
    assert lab.thole("alice", "--state-dir", BOOK, "run", "--no-wait", "true").returncode == 0
    assert lab.thole("mallory", "--state-dir", BOOK, "run", "--no-wait", "true").returncode == 69


@in_one_surrounding
def test_a_group_beside_another_directory_in_the_sites_file_stops_everybody(lab, site):
    site(f'state_dir = "{BOOK}"\n[state]\ngroup = "{SITE_GROUP}"\n')
    for user, words in (("root", ["init"]), ("mallory", ["run", "true"]), ("alice", ["status"])):
        done = lab.thole(user, *words)
        assert done.returncode == 64 and "/run/thole" in done.stderr, done.stderr
    assert lab.run("root", "test", "-e", BOOK).returncode != 0
    assert configuration_of(lab, "alice")[0]["result"] == "problem"


@in_one_surrounding
def test_who_makes_another_directory_beside_a_site_with_a_group_is_told_that_it_is_open(lab, site):
    site(f'[state]\ngroup = "{SITE_GROUP}"\n')
    done = lab.thole("root", "--state-dir", BOOK, "init")
    assert done.returncode == 0 and f"the group {SITE_GROUP}" in done.stderr, done.stderr
    lab.thole("root", "init", check=True)
    assert access(lab) == {(0o660, SITE_GID)}


# A file that is not heeded.

@in_one_surrounding
@pytest.mark.parametrize("words", [["run", "--no-wait", "true"], ["submit", "true"], ["status"], ["map", "true", ":::", "1"],
                                   ["claim", "--no-wait"]], ids=lambda words: words[0])
def test_a_sites_file_that_cannot_be_read_stops_with_its_cure(lab, site, words):
    site(f'state_dir = "{BOOK}"\n', mode="600")
    done = lab.thole("bob", *words)
    assert done.returncode == 69 and f"sudo chmod a+r {CONFIG}" in done.stderr, done.stderr


@in_one_surrounding
def test_one_gpu_has_one_owner_whoever_can_read_the_sites_file(lab, site):
    site(f'state_dir = "{BOOK}"\n', mode="600")
    root = lab.hold("root", "--on", "0")
    assert lab.thole("bob", "run", "--no-wait", "--on", "0", "true").returncode == 69
    assert "not everybody can read" in configuration_of(lab, "root")[0]["text"]
    lab.run("root", "sh", "-c", f"chmod 644 {CONFIG}; chmod 700 /etc/thole", check=True)
    closed = lab.thole("bob", "run", "--no-wait", "--on", "0", "true")
    assert closed.returncode == 69 and "sudo chmod a+rx /etc/thole" in closed.stderr, closed.stderr
    lab.run("root", "chmod", "755", "/etc/thole", check=True)
    assert lab.thole("bob", "run", "--no-wait", "--on", "0", "true").returncode == 75
    end(root)


@in_one_surrounding
@pytest.mark.parametrize("link", [CONFIG, "/etc/thole"])
def test_a_sites_file_behind_a_link_to_what_is_not_there_stops_everybody(lab, site, link):
    lab.run("root", "sh", "-ec", f"rm -rf {link}; ln -s /srv/absent {link}", check=True)
    for user in ("root", "bob"):
        done = lab.thole(user, "run", "--no-wait", "true")
        assert done.returncode == 69 and f"{link} is a link to what is not there" in done.stderr, done.stderr
        assert f"sudo rm {link}" in done.stderr
    assert configuration_of(lab, "bob")[0]["result"] == "problem"
    lab.run("root", "rm", link, check=True)
    assert claims_one(lab, "bob").returncode == 0


@in_one_surrounding
def test_root_goes_on_with_no_site_file_that_is_not_roots(lab, site):
    site(f'state_dir = "{BOOK}"\n', owner="alice")
    alice = lab.hold("alice", "--on", "0")
    done = lab.thole("root", "run", "--no-wait", "--on", "0", "true")
    assert done.returncode == 69 and f"sudo chown root {CONFIG}" in done.stderr, done.stderr
    found = configuration_of(lab, "root")
    assert found[0]["result"] == "problem" and CONFIG in found[0]["text"] and "ends with 69" in found[0]["text"]
    end(alice)


@in_one_surrounding
def test_settings_of_ones_own_that_cannot_be_read_stop_with_their_cure(lab, site):
    folder = "$HOME/.config/thole"
    lab.run("bob", "sh", "-ec", f"mkdir -p {folder}; echo 'state_dir = \"/var/tmp/bobs\"' > {folder}/config.toml", check=True)
    for closed, mend in (("config.toml", "chmod u+r "), (".", "chmod u+rx ")):
        lab.run("bob", "sh", "-ec", f"chmod 0 {folder}/{closed}", check=True)
        done = lab.thole("bob", "run", "--no-wait", "true")
        assert done.returncode == 69 and mend in done.stderr, done.stderr
        assert lab.thole("bob", "doctor").returncode == 0
        lab.run("bob", "sh", "-ec", f"chmod 700 $HOME/.config/thole; chmod 644 {folder}/config.toml", check=True)
    assert claims_one(lab, "bob").returncode == 0


@in_one_surrounding
def test_settings_in_a_home_of_anothers_stop_nobody(lab, site):
    """su without -, sudo -E: what is closed to us there is none of ours."""
    home = lab.run("bob", "sh", "-ec", "mkdir -p -m 700 $HOME/.config; mkdir -p $HOME/.config/thole; "
                   "echo > $HOME/.config/thole/config.toml; echo $HOME", check=True).stdout.strip()
    assert claims_one(lab, "alice").returncode == 0
    done = lab.thole("alice", "run", "--no-wait", "true", HOME=home)
    assert done.returncode == 0, done.stderr
