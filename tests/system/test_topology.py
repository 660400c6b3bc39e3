"""Where the CPUs come from, through the program: the live machine inside cpusets, other programs' files, a missing libhwloc."""
import json
import os
import pathlib
import subprocess
import tarfile

import pytest

from run_tools import THOLE, eventually, unread

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPOLOGIES = ROOT / "tests" / "topologies"
ONLINE = os.sysconf("SC_NPROCESSORS_ONLN")


@pytest.fixture
def thole(tmp_path):
    """Runs the program as a user with a personal directory, and so a cache, of its own."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)

    def run(*words, before=(), **variables):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "THOLE_PERSONAL_DIR": str(runtime), **variables}
        return subprocess.run([*before, THOLE, *map(str, words)], env=environment, capture_output=True, text=True, timeout=60)
    return run


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "runtime" / "topology"


def cpus(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["cpus"]


def exported(archive, member, folder):
    """A file out of an archive of tests/topologies."""
    with tarfile.open(TOPOLOGIES / archive) as packed:
        path = folder / pathlib.Path(member).name
        path.write_bytes(packed.extractfile(member).read())
    return path


def make_cpuset(allowed):
    """A cgroup with these CPUs: of version 1 where cpusets have a hierarchy of their own, else of version 2."""
    why = "no cpuset controller is mounted"
    for base in (pathlib.Path("/sys/fs/cgroup/cpuset"), pathlib.Path("/sys/fs/cgroup")):
        if not (base / "cgroup.procs").exists():
            continue
        group = base / f"thole-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError as error:
            why = error
            continue
        try:
            (group / "cpuset.cpus").write_text(allowed)
            (group / "cpuset.mems").write_text("0")
            return group
        except OSError as error:
            why = error
            group.rmdir()
    pytest.skip(f"no cgroup with a cpuset can be made here: {why}")


def test_the_whole_machine_is_seen_and_kept_whatever_we_are_bound_to(thole, cache):
    # The first run, which fills the cache, is the restricted one.
    first = cpus(thole("capture", before=["taskset", "-c", "0"]))
    assert len(first) == ONLINE
    assert cache.exists()
    assert cpus(thole("capture")) == first


def test_a_cpuset_of_a_cgroup_does_not_poison_the_cache(thole, cache):
    group = make_cpuset("0")
    try:
        join = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "-"]
        first = cpus(thole("capture", before=join))
        assert len(first) == ONLINE
        assert cache.exists()
        assert cpus(thole("capture")) == first
    finally:
        group.rmdir()


def test_the_second_run_starts_no_probe(thole, cache):
    cpus(thole("capture"))
    # Without hwloc a probe would find no CPUs; what is in the cache needs neither.
    assert len(cpus(thole("capture", THOLE_HWLOC="/nonexistent/libhwloc.so.15"))) == ONLINE


@pytest.mark.parametrize("damage", [b"", b"thole topology 1\n", b"\x00" * 4096, b"cpu 0 0 0 0 0\n"])
def test_a_damaged_cache_is_read_past_and_replaced(thole, cache, damage):
    first = cpus(thole("capture"))
    good = cache.read_bytes()
    cache.write_bytes(damage)
    assert cpus(thole("capture")) == first
    assert cache.read_bytes() == good


def test_without_libhwloc_nothing_else_breaks_and_doctor_says_so(thole, cache):
    missing = {"THOLE_HWLOC": "/nonexistent/libhwloc.so.15"}
    assert cpus(thole("capture", **missing)) == []
    assert not cache.exists()
    checks = json.loads(thole("doctor", "--json", **missing).stdout)["checks"]
    told = next(check for check in checks if check["name"] == "CPUs")
    assert told["result"] == "warning" and "apt-get install libhwloc15" in told["text"]
    assert thole("--state-dir", cache.parent / "state", "run", "-g", "0", "--", "true", **missing).returncode == 0
    # With it, doctor counts.
    checks = json.loads(thole("doctor", "--json").stdout)["checks"]
    assert f"{ONLINE} online" in next(check for check in checks if check["name"] == "CPUs")["text"]


def test_variables_that_steer_hwloc_do_not_steer_us(thole):
    assert len(cpus(thole("capture", HWLOC_SYNTHETIC="package:3 core:5 pu:2", HWLOC_COMPONENTS="synthetic"))) == ONLINE


def test_a_topology_of_lstopo_becomes_a_machine_that_can_be_used(thole, tmp_path):
    xml = exported("mpibind/topo-xml.tar.gz", "mpibind/eas-tioga.xml", tmp_path)
    machine = tmp_path / "tioga.json"
    written = thole("capture", "--from", xml, "-o", machine)
    assert written.returncode == 0 and "8 GPUs written" in written.stderr
    status = json.loads(thole("--machine", machine, "status", "--json").stdout)
    assert len(status["cpus"]) == 128
    assert {gpu["model"] for gpu in status["gpus"]} == {"AMD INSTINCT MI200 (MCM) OAM LC MBA HPE C2"}
    assert {unit["state"] for unit in status["units"]} == {"idle"}
    assert thole("--machine", machine, "--state-dir", tmp_path / "state", "run", "-q", "-g", "2", "--", "true").returncode == 0


def test_capture_from_writes_a_described_machine_file(thole, tmp_path):
    import sys
    sys.path.insert(0, str(ROOT / "tests"))
    import schema_check
    schema = schema_check.load(ROOT / "docs/schema/machine-1.json")
    sources = [TOPOLOGIES / "nvsmi" / "dgx-a100.txt", TOPOLOGIES / "nvsmi" / "q-x-mig.xml",
               exported("prrte/test-topo.tar.gz", "prrte/turin-4gpu-nvml.xml", tmp_path)]
    for source in sources:
        for options in ([], ["--use"], ["--anonymous"]):
            result = thole("capture", "--from", source, *options)
            assert result.returncode == 0, result.stderr
            assert list(schema_check.problems(json.loads(result.stdout), schema, schema)) == []


def test_a_captured_tree_is_a_machine(thole, tmp_path):
    with tarfile.open(TOPOLOGIES / "hwloc" / "nvidiagpunumanodes.tar.gz") as packed:
        packed.extractall(tmp_path / "gathered")
    for folder in (tmp_path / "gathered", tmp_path / "gathered" / "nvidiagpunumanodes"):
        captured = json.loads(thole("capture", "--from", folder).stdout)
        assert len(captured["cpus"]) == 32                         # SMT-4, two packages
        assert [node["id"] for node in captured["numa"]] == [0, 8]  # the six GPUs' own memory is left out
        assert len(captured["gpus"]) == 6
        assert {gpu["vendor"] for gpu in captured["gpus"]} == {"nvidia"}
        assert captured["gpus"][0]["near_cpus"]["node"]


def state(program):
    return pathlib.Path(f"/proc/{program.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]


def test_a_pipe_and_stdin_are_read_to_their_end_however_slow_the_writer_is(thole, tmp_path):
    """As `--from <(ssh node7 nvidia-smi topo -m)`."""
    xml = exported("prrte/test-topo.tar.gz", "prrte/turin-4gpu-nvml.xml", tmp_path)
    for source in (TOPOLOGIES / "nvsmi" / "dgx-a100.txt", xml):
        text = source.read_bytes()
        whole = json.loads(thole("capture", "--from", source).stdout) | {"name": None}
        fifo = tmp_path / f"{source.stem}.fifo"
        os.mkfifo(fifo)
        for word in (fifo, "-"):
            program = subprocess.Popen([THOLE, "capture", "--from", word], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env={**os.environ, "THOLE_PERSONAL_DIR": str(tmp_path)})
            with open(fifo, "r+b", buffering=0) if word == fifo else program.stdin as writer:
                writer.write(text[:100])
                writer.flush()
                eventually(lambda: state(program) == "Z" or unread(writer) == 0 and state(program) == "S", "it waits for more")
                assert state(program) != "Z", program.stderr.read()
                writer.write(text[100:])
            program.stdin = None
            out, err = program.communicate(timeout=200)
            assert program.returncode == 0, err
            assert json.loads(out) | {"name": None} == whole


@pytest.mark.parametrize("content,told", [("nothing of the kind\n", "lstopo FILE.xml"), ("", "empty"),
                                          ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tWIDE\n",
                                           "line 2: no kind of connection: WIDE"),
                                          ("<topology version=\"2.0\"><object/>", "does not read it"),
                                          ("<?xml version='1.0'?><nvidia_smi_log><gpu>", "no XML")])
def test_what_is_no_topology_is_refused_by_name(thole, tmp_path, content, told):
    source = tmp_path / "strange.txt"
    source.write_text(content)
    result = thole("capture", "--from", source)
    assert result.returncode == 64
    assert "strange.txt" in result.stderr and told in " ".join(result.stderr.split())
    assert thole("capture", "--from", tmp_path / "nowhere").returncode == 64


def test_a_machine_file_may_name_its_topology(thole, tmp_path):
    folder = tmp_path / "machines"
    folder.mkdir()
    exported("mpibind/topo-xml.tar.gz", "mpibind/eas-tioga.xml", folder)
    machine = folder / "two.json"
    machine.write_text(json.dumps({"schema": "thole/machine/1", "name": "two", "hwloc_xml": "eas-tioga.xml", "gpus": [
        {"vendor": "amd", "model": "MI250X", "pci": pci} for pci in ("0000:c1:00.0", "0000:c6:00.0")]}))
    # From another folder: the path is relative to the machine file.
    captured = json.loads(thole("--machine", machine, "capture").stdout)
    assert len(captured["cpus"]) == 128 and len(captured["numa"]) == 4
    assert [gpu["near_cpus"]["node"] for gpu in captured["gpus"]] == ["48-55,112-119", "56-63,120-127"]
    assert [gpu["model"] for gpu in captured["gpus"]] == ["MI250X", "MI250X"]
    assert "hwloc_xml" not in captured
    kinds = {link["kind"] for link in captured["gpus"][0]["links"] if link["to"] == "0000:c6:00.0"}
    assert kinds == {"xgmi", "node"}


def test_a_machine_file_whose_topology_is_missing_or_broken_says_which(thole, tmp_path):
    machine = tmp_path / "lab.json"
    machine.write_text(json.dumps({"schema": "thole/machine/1", "hwloc_xml": "gone.xml", "gpus": []}))
    result = thole("--machine", machine, "status")
    assert result.returncode == 64 and "gone.xml" in result.stderr
    (tmp_path / "gone.xml").write_text("<topology>")
    result = thole("--machine", machine, "status")
    assert result.returncode == 64 and "gone.xml" in result.stderr
