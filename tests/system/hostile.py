"""A machine of three users who do not trust each other, for tests of what one of them can do to the others.

A Lab is a mount namespace with an /etc, /run, /tmp and /var/tmp of its own, the users alice, bob and mallory, and a faked
NVIDIA driver. Every process in it is a descendant of the test, so that nothing outlives it. A test file imports the fixture
`lab`, and each of its tests runs once in every surrounding of SURROUNDINGS, or in those that it names:

    from hostile import lab
    @pytest.mark.parametrize("lab", ["plain", "hidepid container"], indirect=True)

Words of a surrounding: `runtime` (users have an XDG_RUNTIME_DIR), `hidepid` (/proc shows nobody the processes of others),
`container` (alice's processes have a pid namespace of their own, and the rest of the machine in common); `plain` says nothing.

The kernel's list of locks is not the lab's but the machine's: tests that make it long stand in files that run alone
("# ctest: serial"), as test_hostile_crowds.py does.
"""
import functools
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from fake_nvidia import Driver
from run_tools import BUILD, THOLE, Started, children, eventually, processes

USERS = {"root": 0, "alice": 61001, "bob": 61002, "mallory": 61003}
SITE_GROUP, SITE_GID = "gpuusers", 61100                     # alice's and bob's, not mallory's
SURROUNDINGS = ["plain runtime", "hidepid", "container"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]

# What programs need of /etc beside its alternatives; the rest of it is the test's.
OF_ETC = ("hostname", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "machine-id", "nsswitch.conf")

MAKE_LAB = """
mount -t tmpfs -o mode=0755,size=16m tmpfs /run
mount -t tmpfs -o mode=1777,size=64m tmpfs /tmp
mkdir -m 1777 /run/lock; mkdir /run/user
mkdir /run/kept; mount --bind "$1" /run/kept
mount -t tmpfs -o mode=1777,size=64m tmpfs /var/tmp
mkdir -p "$1"; mount --move /run/kept "$1"; rmdir /run/kept
if [ -d /etc/alternatives ]; then mount --bind /etc/alternatives "$1/etc/alternatives"; fi
mount --rbind "$1/etc" /etc
if [ "$2" = hidepid ]; then mount -t proc -o hidepid=2 proc /proc; fi
shift 2
for uid; do mkdir -m 0700 /run/user/$uid; chown $uid:$uid /run/user/$uid; done
echo up; exec cat
"""

# Takes one lock and keeps it until its standard input ends: flock of any file, or an open file description's lock of a byte.
LOCKER = """
import fcntl, os, struct, sys
path, kind, byte = sys.argv[1:]
fd = os.open(path, (os.O_RDWR if kind == "ofd-write" else os.O_RDONLY) | os.O_NONBLOCK)
if kind.startswith("flock"):
    fcntl.flock(fd, (fcntl.LOCK_EX if kind == "flock" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
else:
    lock = fcntl.F_WRLCK if kind == "ofd-write" else fcntl.F_RDLCK
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", lock, os.SEEK_SET, int(byte), 1, 0))    # F_OFD_SETLK
print("up", flush=True)
sys.stdin.read()
"""


def kernel():
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in platform.release().split("-")[0].split(".")[:2])


def interpreter():
    """A Python that every user can start; the one that runs the tests may lie in a closed home."""
    def open_to_all(path):
        return path and all(folder.stat().st_mode & 0o001 for folder in [pathlib.Path(path), *pathlib.Path(path).parents])
    candidates = [os.path.realpath(sys.executable), shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")]
    return next(filter(open_to_all, candidates), None)


def missing(words=()):
    """Why there can be no such lab here, or ""."""
    if os.geteuid() != 0:
        return "several users and mounts need root"
    if not all(map(shutil.which, ("unshare", "nsenter", "setpriv", "mount"))):
        return "unshare, nsenter, setpriv or mount (util-linux) is missing"
    if not interpreter():
        return "there is no Python that other users could start"
    if subprocess.run(["unshare", "-m", "-p", "-f", "true"], capture_output=True).returncode != 0:
        return "no mount and pid namespaces here"
    if "hidepid" in words and kernel() < (5, 8):
        return "before Linux 5.8 hidepid would be set for the whole machine"
    return ""


@functools.cache
def what_is_tested():
    """A folder that every user may read, as a build folder need not be, made once for all labs of a run."""
    folder = tempfile.TemporaryDirectory(prefix="thole-tested-", dir="/var/tmp")
    library = BUILD / "libthole.so.0"
    for file in (pathlib.Path(THOLE), BUILD / "fake/full/libnvidia-ml.so.1", *([library] if library.exists() else [])):
        shutil.copy(file, folder.name)
    shutil.copytree(SOURCE / "python", f"{folder.name}/python", ignore=shutil.ignore_patterns("__pycache__", "_lib"))
    subprocess.run(["chmod", "-R", "a+rX", folder.name], check=True)
    return folder


class Lab:
    def __init__(self, folder, surrounding="plain", gpus=4):
        self.words = set(surrounding.split())
        assert self.words <= {"plain", "runtime", "hidepid", "container"}, surrounding
        self.folder = pathlib.Path(folder)   # outside /tmp and /run, where it stays visible
        self.driver = Driver(self.folder, gpus)
        self._open_driver()
        self.program = str(self.folder / "thole")
        subprocess.run(["cp", "-Rl", f"{what_is_tested().name}/.", self.folder], check=True)   # links: nobody writes to them
        self._make_etc()
        self._container = None
        self.keeper = Started(["unshare", "-m", "--propagation", "private", "sh", "-ec", MAKE_LAB, "sh", str(self.folder),
                               "hidepid" if "hidepid" in self.words else "", *map(str, USERS.values())])
        assert self.keeper.line() == "up", self.keeper.process.stderr.read().decode()

    def _open_driver(self):
        subprocess.run(["chmod", "-R", "a+rX", self.driver.root, self.driver.conf], check=True)

    def _make_etc(self):
        etc = self.folder / "etc"
        etc.mkdir(mode=0o755)
        (etc / "alternatives").mkdir()
        subprocess.run(["cp", "-a", *(f"/etc/{name}" for name in OF_ETC if os.path.lexists(f"/etc/{name}")), etc], check=True)
        passwd, group = ["root:x:0:0:root:/:/bin/sh", "nobody:x:65534:65534::/:/bin/sh"], ["root:x:0:", "nogroup:x:65534:"]
        for user, uid in USERS.items():
            if uid:
                home = self.folder / "home" / user
                home.mkdir(parents=True)
                os.chown(home, uid, uid)
                passwd.append(f"{user}:x:{uid}:{uid}:{user}:{home}:/bin/sh")
                group.append(f"{user}:x:{uid}:")
        group.append(f"{SITE_GROUP}:x:{SITE_GID}:alice,bob")
        (etc / "passwd").write_text("\n".join(passwd) + "\n")
        (etc / "group").write_text("\n".join(group) + "\n")

    def close(self):
        if self._container:
            self._container.__exit__()
        self.keeper.__exit__()

    # What runs in it.

    def environment(self, user, runtime_dir=None, **variables):
        """Of a login of this user. `runtime_dir`: has it an XDG_RUNTIME_DIR? None: as the surrounding says."""
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "USER": user, "LOGNAME": user,
               "HOME": "/" if user == "root" else str(self.folder / "home" / user),
               "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1",
               "THOLE_SYSROOT": str(self.driver.root), "THOLE_NVML": str(self.folder / "libnvidia-ml.so.1"),
               "THOLE_FAKE_NVML": str(self.driver.conf), "THOLE_PROGRAM": self.program,
               "PYTHONPATH": str(self.folder / "python"), "THOLE_LIBRARY": str(self.folder / "libthole.so.0")}
        if "runtime" in self.words if runtime_dir is None else runtime_dir:
            env["XDG_RUNTIME_DIR"] = f"/run/user/{USERS[user]}"
        return {**env, **variables}

    def command(self, user, *words, container=None):
        """`container`: in the pid namespace of its own? None: alice is where the surrounding says so."""
        inside = "container" in self.words and user == "alice" if container is None else container
        target = [str(self.container_pid()), "-p"] if inside else [str(self.keeper.pid)]
        enter = ["nsenter", "-m", "-r", "--wd=/", "-t", *target, "--"]
        uid = USERS[user]
        become = [] if uid == 0 else ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups", "--"]
        return [*enter, *become, *map(str, words)]

    def container_pid(self):
        """Made when it is first needed: it sees what is mounted by then (/run/thole may be a file system of its own)."""
        if not self._container:
            self._container = Started(self.command("root", "unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc",
                                                   "sh", "-c", "echo up; exec cat"))
            assert self._container.line() == "up"
        return children(self._container.pid)[0]

    def run(self, user, *words, check=False, input=None, timeout=120, container=None, runtime_dir=None, **variables):
        """Runs a command to its end, as this user."""
        done = subprocess.run(self.command(user, *words, container=container), capture_output=True, text=True, cwd="/",
                              input=input or "", timeout=timeout, env=self.environment(user, runtime_dir, **variables))
        assert not check or done.returncode == 0, f"{user}: {words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def thole(self, user, *words, **more):
        return self.run(user, self.program, *words, **more)

    def python(self, user, code, *words, **more):
        """A Python program of this user; the package and the library of this build are there for it."""
        return self.run(user, interpreter(), "-c", code, *words, **more)

    def start(self, user, *words, container=None, runtime_dir=None, **variables):
        """Starts a command with pipes (run_tools.Started); ended with its test at the latest."""
        return Started(self.command(user, *words, container=container), cwd="/",
                       env=self.environment(user, runtime_dir, **variables))

    def start_python(self, user, code, *words, **more):
        """Starts a Python program, and waits until it prints the line "up"."""
        started = self.start(user, interpreter(), "-u", "-c", code, *words, **more)
        line = started.line()
        assert line == "up", f"{line}\n{started.process.stderr.read().decode()}"
        return started

    def pids(self, *names):
        """Of the processes of this lab that have one of these names: other tests have users of the same numbers."""
        where = f"/proc/{self.keeper.pid}/ns/mnt"
        def is_here(pid):
            try:
                return os.path.samefile(f"/proc/{pid}/ns/mnt", where)
            except FileNotFoundError:
                return False
        return [pid for pid, name, _, _ in processes() if name in names and is_here(pid)]

    # What tests of claims do all the time.

    def init(self, *words):
        return self.thole("root", "init", *words, check=True)

    def hold(self, user, *words, gpus=1, **more):
        """Starts a claim that is held until its standard input ends (`end`); returns once it has its GPUs."""
        started = self.hold_later(user, *words, gpus=gpus, **more)
        line = started.line()
        assert line == "up", f"{line}\n{started.process.stderr.read().decode()}"
        return started

    def hold_later(self, user, *words, gpus=1, **more):
        """The same for GPUs that are not free yet: prints "up" when it has them."""
        return self.start(user, self.program, "run", "-g", str(gpus), *words, "--", "sh", "-c", "echo up; exec cat", **more)

    def lock(self, user, path, kind="flock", byte=0, **more):
        """A process of this user that keeps a lock: "flock", "flock-shared", "ofd-read" or "ofd-write" (of one byte)."""
        return self.start_python(user, LOCKER, path, kind, str(byte), **more)

    def status(self, user="root", **more):
        return json.loads(self.thole(user, "status", "--json", check=True, **more).stdout)

    def claims(self, user="root", **more):
        """The claims that are held, as this user sees them."""
        return [claim for claim in self.status(user, **more)["claims"] if claim["held"]]

    def waiters(self, user="root"):
        return self.status(user)["queue"]

    def set_gpus(self, gpus):
        """The machine has so many GPUs from now on."""
        self.driver.set_gpus(gpus)
        self._open_driver()

    def partition(self, gpu, *more):
        """Two instances instead of all of this one of 4 GPUs, from now on, and what else the driver does (fake/nvml.c)."""
        one = "gpu {0} instance MIG-aaaaaaa{1}-0000-4000-8000-000000000001 {1} 0 3 3 40000 0 3g.40gb"
        self.driver.configure("gpus 4", f"gpu {gpu} mig 1", one.format(gpu, 1), one.format(gpu, 2), *more)
        self._open_driver()


def end(started, status=0):
    """Ends what reads its standard input until it ends, and has a look at how."""
    started.process.stdin.close()
    assert started.wait() == status, started.process.stderr.read().decode()
    started.__exit__()


def supervisor_of(started):
    """The pid of the thole behind a started command: in a container it is a child of what entered it."""
    def found():
        name = pathlib.Path(f"/proc/{started.pid}/comm").read_text(errors="replace").strip()
        return started.pid if name != "nsenter" else next(iter(children(started.pid)), None)
    return eventually(found, "the command runs")


def make(surrounding="plain", gpus=4):
    """A context for a lab outside of the fixture; skips the test where there can be none."""
    reason = missing(surrounding.split())
    if reason:
        pytest.skip(reason)
    return _Making(surrounding, gpus)


class _Making:
    def __init__(self, surrounding, gpus):
        self.surrounding, self.gpus = surrounding, gpus

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="thole-lab-", dir="/var/tmp")
        os.chmod(self.folder.name, 0o755)
        self.lab = Lab(self.folder.name, self.surrounding, self.gpus)
        return self.lab

    def __exit__(self, *_):
        self.lab.close()
        eventually(self._nothing_is_left, "no runner of a queue is left that would make its files again")
        self.folder.cleanup()

    def _nothing_is_left(self):
        """Ends what runs the lab's program; True when nothing does."""
        left = False
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/exe").startswith(self.folder.name):
                    left = True
                    os.kill(int(name), signal.SIGKILL)
            except OSError:                                        # it has ended, or belongs to the kernel
                continue
        return not left


@pytest.fixture(params=SURROUNDINGS)
def lab(request):
    with make(request.param) as made:
        yield made
