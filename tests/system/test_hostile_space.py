"""The space of /run/thole: what strangers write there fills nothing else, and costs no claim."""
import pytest

from hostile import end, lab  # noqa: F401 (lab: a fixture)

in_one_surrounding = pytest.mark.parametrize("lab", ["plain"], indirect=True)

# The first process of a machine of its own, as far as mounts go: `thole init` mounts only where pid 1 sees it too.
AS_PID_1 = ["unshare", "-m", "-p", "-f", "--mount-proc", "--propagation", "private", "sh", "-ec"]


def on_a_machine(lab, script):
    done = lab.run("root", *AS_PID_1, script.replace("THOLE", lab.program))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MOUNTED = "grep -c ' /run/thole tmpfs ' /proc/mounts || true\n"


@in_one_surrounding
def test_init_gives_the_directory_a_small_file_system_of_its_own(lab):
    seen = on_a_machine(lab, "THOLE init; grep ' /run/thole ' /proc/mounts; THOLE init; " + MOUNTED).splitlines()
    mount = seen[1].split()
    assert mount[2] == "tmpfs" and {"nosuid", "nodev", "noexec", "size=4096k", "nr_inodes=8192"} <= set(mount[3].split(",")), mount
    assert seen[-1] == "1", "once"


@in_one_surrounding
def test_it_is_never_mounted_over_locks(lab):
    lab.init()    # not in the namespace of pid 1: no mount
    assert lab.run("root", "grep", "-c", " /run/thole ", "/proc/mounts").stdout == "0\n"
    alice = lab.hold("alice")
    assert on_a_machine(lab, "THOLE init >&2; " + MOUNTED) == "0\n"
    gpu = str(lab.claims()[0]["gpu"])
    assert lab.thole("bob", "run", "--no-wait", "--on", gpu, "--", "true").returncode == 75
    end(alice)


@in_one_surrounding
def test_init_in_a_mount_namespace_of_its_own_is_seen_outside(lab):
    """That of a service with ProtectSystem=: what were mounted there would stay there."""
    done = lab.run("root", "unshare", "-m", "--propagation", "slave", lab.program, "init")
    assert done.returncode == 0, done.stderr
    assert lab.thole("alice", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    assert "(system)" in lab.thole("alice", "doctor").stdout


def own_file_system(lab):
    """What run-thole.mount does, before init."""
    lab.run("root", "sh", "-ec", "mkdir /run/thole; mount -t tmpfs -o size=4m,nr_inodes=8k,mode=0755 thole /run/thole", check=True)
    lab.init()


@in_one_surrounding
def test_what_is_written_to_the_shared_files_fills_nothing_else_and_is_cut_back(lab):
    own_file_system(lab)
    for name in ("who", "queue"):
        lab.run("mallory", "dd", "if=/dev/zero", f"of=/run/thole/{name}", "bs=1M", "seek=1", "count=64", "conv=notrunc")
    assert lab.run("root", "sh", "-c", "echo x > /run/daemon.pid").returncode == 0
    assert lab.thole("alice", "run", "--no-wait", "-g", "4", "--", "true").returncode == 0
    lab.init()
    sizes = lab.run("root", "stat", "-c", "%s", "/run/thole/who", "/run/thole/queue").stdout.split()
    assert all(int(size) < 2 << 20 for size in sizes), sizes
    assert lab.run("alice", "sh", "-c", "echo x > /run/thole/notes/probe").returncode == 0, "there is space again"


@in_one_surrounding
def test_a_directory_full_of_files_costs_no_claim_and_its_filler_is_named(lab):
    own_file_system(lab)
    lab.run("mallory", "sh", "-c", "cd /run/thole/notes; i=0; while : > 61003-$i; do i=$((i+1)); done")
    assert lab.run("alice", "touch", "/run/thole/notes/x").returncode != 0, "it is full"
    alice = lab.hold("alice", gpus=2)
    assert lab.thole("bob", "run", "--no-wait", "-g", "3", "--", "true").returncode == 75
    assert lab.thole("bob", "run", "--no-wait", "-g", "2", "--", "true").returncode == 0
    said = " ".join(lab.thole("bob", "doctor").stdout.split())
    assert "nearly full" in said and "user 61003 has most of it" in said, said
    lab.set_gpus(5)
    lab.init()
    assert lab.thole("bob", "run", "--no-wait", "--on", "4", "--", "true").returncode == 0
    assert "nearly full" not in lab.thole("bob", "doctor").stdout
    end(alice)


@in_one_surrounding
def test_init_deletes_what_is_no_note(lab):
    lab.init()
    lab.run("mallory", "sh", "-ec", "cd /run/thole/notes; mkdir 61003-d; mkfifo 61003-f; echo x > 61001-a; ln -s /etc/passwd 61003-l; "
            "echo x > 61003-00000001; truncate -s 1G 61003-00000002", check=True)
    lab.run("alice", "sh", "-c", "echo x > /run/thole/notes/61001-0000000b", check=True)
    lab.init()
    assert lab.run("root", "ls", "/run/thole/notes").stdout.split() == ["61001-0000000b", "61003-00000001"]
    lab.init("--group", "gpuusers")
    assert lab.run("root", "ls", "/run/thole/notes").stdout.split() == ["61001-0000000b"], "who may not claim says nothing of claims"
