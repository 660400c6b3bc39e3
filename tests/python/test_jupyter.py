"""`thole jupyter` and `%load_ext tholepin`, with real kernels: ipykernel, jupyter_client and nbclient."""
# ctest: timeout 1800
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

import tholepin
from conftest import adopt_orphans
from ecosystem import environment, python_with
from tholepin import _native

# What drives a kernel, run by a Python that has jupyter_client. `held` is what others see.
DRIVER = r"""
import json, os, signal, subprocess, sys, tempfile, time
from jupyter_client.manager import KernelManager

def start(name):
    # Not by TCP: a port that is free when it is chosen may be taken when the kernel binds it.
    manager = KernelManager(kernel_name=name, transport="ipc",
                            ip=os.path.join(tempfile.mkdtemp(dir=os.environ["KERNEL_SOCKETS"]), "k"))
    log = open(os.environ["KERNEL_LOG"], "a")   # not our own streams: a kernel that outlives us would keep them open
    manager.start_kernel(stdout=log, stderr=log)
    client = manager.blocking_client()
    client.start_channels()
    return manager, client

def ready(name):
    manager, client = start(name)
    client.wait_for_ready(timeout=200)
    return manager, client

def said(client, code):
    text = []
    reply = client.execute_interactive(code, timeout=200,
                                       output_hook=lambda message: text.append(message["content"].get("text", "")))
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(text).strip()

def held():
    status = json.loads(subprocess.run(["thole", "status", "--json"], capture_output=True, text=True, check=True).stdout)
    return sorted(i for i, gpu in enumerate(status["gpus"]) for claim in status["claims"] if claim["key"] == gpu["uuid"])

def eventually(condition, what):
    end = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)

def pid_of(client):
    return int(said(client, "import os; print(os.getpid())"))
"""


@pytest.fixture
def python(monkeypatch, tmp_path):
    """A Python with ipykernel; everything of Jupyter goes below tmp_path."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("KERNEL_LOG", str(tmp_path / "kernel.log"))
    with tempfile.TemporaryDirectory(prefix="k") as sockets:  # their paths must be short
        monkeypatch.setenv("KERNEL_SOCKETS", sockets)
        yield python_of_kernels(monkeypatch)


def python_of_kernels(monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    found = python_with(["ipykernel", "jupyter_client", "nbclient"], ["ipykernel", "nbclient"])
    monkeypatch.setenv("PATH", f"{os.path.dirname(found)}:{os.environ['PATH']}")  # its python3 is the one that is installed
    return found


@pytest.fixture
def orphans_go_to_process_1():
    """As outside of tests: by that ipykernel sees that its server has died."""
    adopt_orphans(False)
    try:
        if adopter() != 1:
            pytest.skip(
                "orphans go to another process than 1 here, as below systemd --user: ipykernel does not see that its server "
                "died"
            )
        yield
    finally:
        adopt_orphans(True)


def adopter():
    """The pid of the process that adopts orphans here."""
    orphan = (
        "import os, time\nif os.fork(): os._exit(0)\nwhile os.getppid() == os.getpgid(0): time.sleep(0.01)\nprint(os.getppid())"
    )
    return int(
        subprocess.run([sys.executable, "-c", orphan], stdout=subprocess.PIPE, check=True, start_new_session=True).stdout
    )


def jupyter(*words, status=0):
    done = subprocess.run(
        [_native.program(), "jupyter", *map(str, words)], capture_output=True, text=True, timeout=200, env=environment()
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.strip() if status == 0 else done.stderr


def spec(tmp_path, name):
    return json.loads((tmp_path / "jupyter_data_dir/kernels" / name / "kernel.json").read_text())


def drive(python, code, **more):
    done = subprocess.run([python, "-c", DRIVER + code], capture_output=True, text=True, timeout=280, env=environment(**more))
    log = pathlib.Path(os.environ["KERNEL_LOG"])
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\nthe kernels said: {log.exists() and log.read_text()}"
    return done.stdout.splitlines()


# ---- install, list, remove ----


def test_what_is_installed_is_listed_offered_by_jupyter_and_removed(python, tmp_path):
    one = jupyter("install", "-g", 1)
    two = jupyter("install", "-g", 2, "--memory=20G", "--pick", "first", "--name", "two")
    assert one.startswith("thole-1gpu") and two == "two"
    three = json.loads(jupyter("--json", "install", "-g", 3))["kernels"]
    assert [kernel["display_name"].endswith("3 GPUs") for kernel in three] == [True]
    left = json.loads(jupyter("--json", "remove", three[0]["name"]))
    listed = json.loads(jupyter("--json", "list"))
    assert left == listed
    assert [kernel["name"] for kernel in listed["kernels"]] == sorted([one, two])
    assert {kernel["name"]: kernel["request"] for kernel in listed["kernels"]} == {
        one: "-g 1",
        "two": "-g 2 --memory=20G --pick first",
    }
    offered = drive(python, "from jupyter_client.kernelspec import KernelSpecManager\n"
                            "print(*sorted(KernelSpecManager().get_all_specs()))")[0].split()
    assert {one, two} <= set(offered)
    argv = spec(tmp_path, two)["argv"]
    assert argv[1:argv.index("--")] == ["run", "--no-supervisor", "-g", "2", "--memory=20G", "--pick", "first"]
    assert os.path.isabs(argv[0]) and os.path.isabs(argv[argv.index("--") + 1])
    jupyter("remove", one, two)
    assert jupyter("list") == "" and list((tmp_path / "jupyter_data_dir/kernels").iterdir()) == []


def test_an_environment_gives_its_python_and_its_name(python, tmp_path):
    project = tmp_path / "my project"
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/pyvenv.cfg").write_text("")
    (project / ".venv/bin/real").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (project / ".venv/bin/real").chmod(0o755)
    (project / ".venv/bin/python").symlink_to("real")
    name = jupyter("install", "-g", 2, "--venv", project / ".venv")
    assert name == "thole-2gpu-my-project"
    written = spec(tmp_path, name)
    assert written["display_name"] == "Python (my project), 2 GPUs"
    assert str(project / ".venv/bin/python") in written["argv"], "the link, not what it points to"


def test_what_cannot_be_installed_is_refused_with_the_fix(python, tmp_path):
    assert "python3 -m venv" in jupyter("install", "--venv", tmp_path / "none", status=64)
    (tmp_path / "bare/bin").mkdir(parents=True)
    (tmp_path / "bare/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bare/bin/python").chmod(0o755)
    said = jupyter("install", "--venv", tmp_path / "bare", status=69)
    assert "no ipykernel" in said and "-m pip install ipykernel" in said
    other = tmp_path / "jupyter_data_dir/kernels/mine"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["x"], "display_name": "X"}')
    assert "did not make" in jupyter("install", "--name", "mine", status=64)
    assert "two" in jupyter("remove", jupyter("install", "--name", "two") + "o", status=64)
    assert "no kernel" in jupyter("remove", "mine", status=64)
    assert (other / "kernel.json").exists()
    assert "install" in jupyter("instal", status=64)
    assert "letters" in jupyter("install", "--name", "../x", status=64)


# ---- Kernels ----


def test_the_claim_is_held_while_the_kernel_lives_and_gone_after_it_however_it_ends(python):
    name = jupyter("install", "-g", 2, "--pick", "first")
    lines = drive(python, f"""
for how in ("shutdown", "kill its group", "kill the process", "crash"):
    manager, client = ready({name!r})
    pid = pid_of(client)
    assert pid == manager.provisioner.pid, "thole run becomes the kernel"
    assert said(client, "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])") == "0,1"
    assert held() == [0, 1], held()
    if how == "shutdown": manager.shutdown_kernel()
    if how == "kill its group": manager.shutdown_kernel(now=True)
    if how == "kill the process": os.kill(pid, signal.SIGKILL)
    if how == "crash": client.execute("import ctypes; ctypes.string_at(0)")
    eventually(lambda: held() == [], how)
    manager.cleanup_resources()
    print(how)
""")
    assert lines == ["shutdown", "kill its group", "kill the process", "crash"]


def test_restarting_the_kernel_claims_anew_and_interrupting_it_changes_nothing(python):
    """Also with --time, where `thole run` stays between and passes signals on."""
    plain, timed = jupyter("install", "--name", "plain"), jupyter("install", "--name", "timed", "--time", "1h")
    lines = drive(python, f"""
for name in ({plain!r}, {timed!r}):
    manager, client = ready(name)
    first = pid_of(client)
    message = client.execute("print('busy', flush=True)\\nwhile True: pass", stop_on_error=False)   # else the next is aborted
    while client.get_iopub_msg(timeout=200)["content"].get("text", "").strip() != "busy": pass
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=200)
        if reply["parent_header"].get("msg_id") == message: break
    assert reply["content"]["ename"] == "KeyboardInterrupt", reply["content"]
    assert pid_of(client) == first and len(held()) == 1
    manager.restart_kernel()
    client.wait_for_ready(timeout=200)
    assert pid_of(client) != first and len(held()) == 1, held()
    manager.shutdown_kernel()
    eventually(lambda: held() == [], "the end")
    print(name)
""")
    assert lines == ["plain", "timed"]


def test_a_kernel_waits_its_turn_for_a_gpu(python):
    name = jupyter("install", "-g", 8)
    lines = drive(python, f"""
claim = subprocess.run(["thole", "claim", "--on", "5", "--time", "1h"], capture_output=True, text=True,
                       check=True).stdout.strip()
manager, client = start({name!r})
eventually(lambda: "waiting" in open(os.environ["KERNEL_LOG"]).read(), "the line that says so")
assert held() == [5] and manager.is_alive()
subprocess.run(["thole", "release", claim], check=True)
client.wait_for_ready(timeout=200)
print(*held())
manager.shutdown_kernel()
""")
    assert lines == ["0 1 2 3 4 5 6 7"]


def test_a_kernel_whose_server_is_killed_ends_and_gives_its_gpu_back(python, orphans_go_to_process_1):
    """ipykernel looks for its parent once a second, from when it is up: `thole run` must not stand between them."""
    name = jupyter("install")
    server = DRIVER + f"manager, client = ready({name!r}); print(pid_of(client), flush=True); time.sleep(1000)"
    with subprocess.Popen([python, "-c", server], stdout=subprocess.PIPE, text=True, env=environment()) as process:
        kernel = int(process.stdout.readline())
        assert os.stat(f"/proc/{kernel}")
        process.kill()
    drive(python, "eventually(lambda: held() == [], 'the end of the kernel')")


def test_a_kernel_that_is_killed_at_any_moment_leaves_nothing(python):
    name = jupyter("install", "-g", 4)
    drive(python, f"""
import random
for _ in range(8):
    manager, client = start({name!r})
    time.sleep(random.uniform(0, 0.4))
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    eventually(lambda: held() == [], "the claim's end")
    manager.cleanup_resources()
""")


POOL = """
import os, time, tholepin
factor = 3
def times(x): return x * factor
with tholepin.Pool(gpus=2) as pool:
    print(pool.map(times, range(5), chunksize=1), pool.apply(lambda: len(os.environ["CUDA_VISIBLE_DEVICES"])))
"""


@pytest.mark.parametrize("cloudpickle", [True, False])
def test_a_pool_in_cells_works_is_interrupted_and_ends_with_the_kernel(python, cloudpickle):
    hide = "" if cloudpickle else "import sys; sys.modules['cloudpickle'] = None"
    lines = drive(python, f"""
def alive(pid):
    try: return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError: return False

manager, client = ready("python3")
print(said(client, {hide + POOL!r}), held())
pids = said(client, "pool = tholepin.Pool(gpus=3); pool.wait_until_ready(); print(*pool._crew.pids())").split()
message = client.execute("print('busy', flush=True)\\npool.map(time.sleep, [1000])", stop_on_error=False)
while client.get_iopub_msg(timeout=200)["content"].get("text", "").strip() != "busy": pass
manager.interrupt_kernel()
while True:
    reply = client.get_shell_msg(timeout=200)
    if reply["parent_header"].get("msg_id") == message: break
print(reply["content"]["ename"])
print(said(client, "print(pool.map(times, [7, 8]))"), len(held()), sum(map(alive, pids)))     # the pool is as it was
os.kill(manager.provisioner.pid, signal.SIGKILL)
eventually(lambda: held() == [] and not any(map(alive, pids)), "the end of the workers")
manager.cleanup_resources()
""")
    assert lines == ["[0, 3, 6, 9, 12] 1 []", "KeyboardInterrupt", "[21, 24] 3 3"]


# ---- %load_ext tholepin ----


def test_the_extension_shows_what_the_kernel_holds(python):
    name = jupyter("install", "-g", 2, "--on", "3,5", "--time", "1h")
    lines = drive(python, f"""
manager, client = ready({name!r})
print(said(client, "%load_ext tholepin"))
print(said(client, "%thole") == said(client, "import tholepin.magic; print(tholepin.magic.held())"))
manager.shutdown_kernel()
""")
    assert lines[0].startswith("cuda:0  GPU 3  A100") and lines[1].startswith("cuda:1  GPU 5  A100")
    assert lines[2].startswith("claim ") and ", until 20" in lines[2] and lines[3] == "True"


def test_a_kernel_without_gpus_is_told_how_to_get_one_and_takes_it_in_a_cell(python):
    lines = drive(python, """
manager, client = ready("python3")
print(said(client, "%load_ext tholepin"))
print(said(client, "import tholepin; tholepin.claim(1, pick='first').indices"),
      said(client, "print(tholepin.claim(1).indices)"), held())
print(said(client, "%thole"))
manager.shutdown_kernel()
eventually(lambda: held() == [], "the end")
""")
    assert "tholepin.claim(1) in the first cell" in lines[0]
    assert lines[1].endswith("[0] [0]"), "the cell run twice asks for what it has"
    assert lines[2].startswith("cuda:0  GPU 0")


def test_too_late_in_a_notebook_says_restart(python):
    lines = drive(python, """
manager, client = ready("python3")
said(client, "import sys, types; sys.modules['torch'] = types.SimpleNamespace("
             "cuda=types.SimpleNamespace(is_initialized=lambda: True))")
reply = client.execute_interactive("import tholepin; tholepin.claim(1)", timeout=200, output_hook=lambda message: None)
print(reply["content"]["ename"], reply["content"]["evalue"])
manager.shutdown_kernel()
""")
    assert lines[0].startswith("TooLateError too late to claim: torch") and "restart the kernel" in "".join(lines)


def test_what_is_held_is_told_without_ipython():
    from tholepin import magic

    assert "no GPU is held" in magic.held()
    with tholepin.claim(1, on=[2]) as claim:
        shown = magic.held()
        assert shown.splitlines()[0].startswith("cuda:0  GPU 2") and claim.id in shown
    os.environ.update({"THOLE_CLAIM": claim.id, "THOLE_GPUS": json.dumps(claim.gpus)})
    try:
        assert "has ended" in magic.held()
    finally:
        del os.environ["THOLE_CLAIM"], os.environ["THOLE_GPUS"]
    assert "ipykernel" not in sys.modules
