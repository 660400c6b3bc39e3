"""`thole topo`: the drawing against golden texts in terminals of several widths, the picture's geometry, the matrix."""
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import xml.etree.ElementTree as ElementTree

import pytest

import odd_machines
from run_tools import THOLE

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/topo"
SHIPPED = sorted(path.stem for path in (ROOT / "machines").glob("*.json"))
ODD = [make.__name__ for make in odd_machines.ALL]
WIDTHS = {"dgx-a100": (60, 80, 132), "mixed-workstation": (60, 80, 132), "dgx1v": (80,), "dgx-h100": (80,), "hgx-h200": (80,),
          "mi250x": (60, 80, 132), "intel-max": (80,), "mig-a100": (80,), "none": (80,), "wide": (60, 80, 200)}


def environment(**more):
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("THOLE_", "CUDA_", "SLURM_", "LC_", "LANG", "NO_COLOR"))
    }
    return {**kept, **more}


def thole(*words, **more):
    return subprocess.run([THOLE, *map(str, words)], capture_output=True, text=True, env=environment(**more), timeout=60)


@pytest.fixture
def words(tmp_path):
    """The words that make thole use a machine, by name."""
    def of(name):
        state = ["--state-dir", str(tmp_path / "state")]
        if name in SHIPPED:
            return ["--machine", name, *state]
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(getattr(odd_machines, name)()))
        return ["--machine", str(path), *state]
    return of


def on_terminal(command, columns, **more):
    """What a command writes to a terminal of this width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment(TERM="xterm", **more)) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: the other end is closed
                data = b""
            if not data:
                break
            shown += data
        assert process.wait(60) == 0, shown.decode()
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def compare(path, text):
    if os.environ.get("THOLE_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path}: THOLE_UPDATE_GOLDEN=1 rewrites it; look at it then"


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_the_drawing_is_as_recorded_and_fits_every_width(words, name):
    drawing = thole(*words(name), "topo")
    assert drawing.returncode == 0, drawing.stderr
    assert "\x1b" not in drawing.stdout
    for columns in sorted({60, 76, 80, 100, 132, 200} | set(WIDTHS.get(name, ()))):
        text = without_colours(on_terminal([THOLE, *words(name), "topo"], columns))
        assert max(map(len, text.splitlines())) <= columns
        assert not re.search(r" $", text, re.M)
        for gpu in range(len(json.loads(thole(*words(name), "topo", "--json").stdout)["gpus"])):
            assert f"GPU {gpu} " in text
        if columns in WIDTHS.get(name, (80,)):
            compare(GOLDEN / f"{name}-{columns}.txt", text)
        if columns == 80:
            assert text == drawing.stdout, "a pipe gets what a terminal of 80 columns gets"


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_the_boxes_of_the_drawing_close(words, name):
    """In every column the lines of boxes go from a corner to a corner."""
    rows = thole(*words(name), "topo").stdout.splitlines()
    boxed = [row for row in rows if row and row[0] in "┌├│└"]
    assert len({len(row) for row in boxed}) <= 2, "boxes above, and perhaps one below them"
    for row in boxed:
        opening, closing = {"┌": "┐", "├": "┤", "│": "│", "└": "┘"}[row[0]], row[-1]
        assert closing in "┐┤│┘" and closing == opening or " " in row


def test_colours_are_for_terminals_and_not_under_no_color(words):
    command = [THOLE, *words("dgx1v"), "topo"]
    assert "\x1b[32mfree" in on_terminal(command, 80)
    assert "\x1b" not in on_terminal(command, 80, NO_COLOR="1")
    assert "\x1b" not in on_terminal([*command, "--no-color"], 80)


def test_a_terminal_without_utf8_gets_ascii(words):
    for variables in ({"LC_ALL": "C"}, {"LANG": "de_DE.ISO-8859-1"}, {"LC_ALL": "C", "LANG": "C.UTF-8"}):
        text = thole(*words("dgx-a100"), "topo", **variables).stdout
        assert text.isascii() and "| + GPU 0" in text
    for variables in ({}, {"LANG": "C.UTF-8"}, {"LC_ALL": "en_US.utf8", "LANG": "C"}):
        assert "│ ┌ GPU 0" in thole(*words("dgx-a100"), "topo", **variables).stdout


def test_json_is_the_status_document(words):
    shown = json.loads(thole(*words("dgx1v"), "topo", "--json").stdout)
    status = json.loads(thole(*words("dgx1v"), "status", "--json").stdout)
    assert shown.keys() == status.keys() and shown["schema"] == "thole/machine/1"
    assert [shown[key] for key in ("cpus", "gpus", "nics", "units", "claims")] == [
        status[key] for key in ("cpus", "gpus", "nics", "units", "claims")
    ]


# --- the picture ---------------------------------------------------------------------------------------------------------

def boxes_of(svg):
    """(class, x, y, right, bottom) of every rectangle but the page, and the page's size."""
    root = ElementTree.fromstring(svg)
    found = []
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        if rect.get("class") != "page":
            x, y, width, height = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
            found.append((rect.get("class"), x, y, x + width, y + height))
    return found, float(root.get("width")), float(root.get("height"))


INSIDE = {"package": (), "node": ("package",), "l3": ("node", "package"), "core": ("l3", "node", "package"), "switch": (),
          "gpu": (), "nic": (), "part": ("gpu",), "fabric": (), "sample": ()}


def overlap(a, b):
    return min(a[3], b[3]) - max(a[1], b[1]) > 0.01 and min(a[4], b[4]) - max(a[2], b[2]) > 0.01


def contains(outer, inner):
    return outer[1] <= inner[1] and outer[2] <= inner[2] and outer[3] >= inner[3] and outer[4] >= inner[4]


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_no_box_of_the_picture_overlaps_another(words, name):
    svg = thole(*words(name), "topo", "--svg", "-").stdout
    boxes, width, height = boxes_of(svg)
    for i, box in enumerate(boxes):
        assert 0 < box[1] < box[3] < width and 0 < box[2] < box[4] < height, f"{box} leaves the page"
        for other in boxes[:i]:
            if not overlap(box, other):
                continue
            outer, inner = (other, box) if contains(other, box) else (box, other)
            assert contains(outer, inner), f"{box} and {other} overlap"
            assert outer[0] in INSIDE[inner[0]], f"a {inner[0]} inside a {outer[0]}"


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_everything_of_the_machine_is_in_the_picture(words, name):
    svg = thole(*words(name), "topo", "--svg", "-").stdout
    machine = json.loads(thole(*words(name), "topo", "--json").stdout)
    boxes, _, _ = boxes_of(svg)
    kinds = [box[0] for box in boxes]
    texts = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    cores = {(cpu["core"] if cpu.get("core") is not None else f"cpu {cpu['id']}") for cpu in machine["cpus"]}
    assert kinds.count("core") == len(cores)
    assert kinds.count("nic") == len(machine["nics"])
    assert {nic["name"] for nic in machine["nics"]} <= set(texts)
    parts = {gpu["pci"] for gpu in machine["gpus"]}
    assert kinds.count("gpu") == len(parts)
    for unit in machine["units"]:
        assert any(text in (f"GPU {unit['unit']}", unit["unit"]) or text.startswith(unit["unit"] + " ") for text in texts), unit
    assert kinds.count("package") == len({cpu["package"] for cpu in machine["cpus"]})


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_no_text_of_the_picture_leaves_its_page_or_box(words, name):
    """By the narrowest estimate that is true of any common font: half a size for each character, 0.35 for narrow ones."""
    svg = thole(*words(name), "topo", "--svg", "-").stdout
    boxes, width, height = boxes_of(svg)
    for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if text.get("transform"):
            continue
        x, y, size = (float(text.get(key)) for key in ("x", "y", "font-size"))
        length = sum(0.35 if c in "iljI.,:;'|! ftr()-/[]·" else 0.56 for c in text.text or "") * size
        left = {"middle": x - length / 2, "end": x - length}.get(text.get("text-anchor"), x)
        assert 0 <= left and left + length <= width and y <= height, text.text
        holders = [box for box in boxes if box[1] <= x <= box[3] and box[2] <= y <= box[4] and box[0] not in ("core", "l3")]
        if holders:
            smallest = min(holders, key=lambda box: (box[3] - box[1]) * (box[4] - box[2]))
            assert smallest[1] <= left and left + length <= smallest[3], f"{text.text!r} leaves its {smallest[0]}"


def test_links_are_as_wide_as_there_are_links(words):
    svg = ElementTree.fromstring(thole(*words("dgx1v"), "topo", "--svg", "-").stdout)
    widths = {}
    for path in svg.iter("{http://www.w3.org/2000/svg}path"):
        ends, links = re.fullmatch(r"GPU (\d - GPU \d): NVLink × (\d)", path[0].text).groups()
        widths.setdefault(int(links), set()).add(path.get("stroke-width"))
    assert {links: len(found) for links, found in widths.items()} == {1: 1, 2: 1}
    assert float(*widths[2]) > float(*widths[1])
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}path"))) == 16  # 6 links each, 8 doubled ones


def test_strangers_names_are_safe_in_the_picture(tmp_path):
    hostile = odd_machines.gpu(1, 0, model="<script>&\"'\x1b[31m")
    hostile["use"] = {
        "memory_used_mib": 900,
        "processes": [{"pid": 1, "user": "</text><x>", "kind": "compute", "memory_mib": 900, "command": "x"}],
    }
    path = tmp_path / "m.json"
    path.write_text(json.dumps(odd_machines.machine("a<b>&", odd_machines.cpus(2), [(0, 1000)], [hostile])))
    svg = thole("--machine", path, "topo", "--svg", "-").stdout
    texts = [text.text for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any("</text><x>, no claim" in text for text in texts)
    assert "\x1b" not in svg and "<script>" not in svg


def test_the_picture_is_written_whole_or_not_at_all(words, tmp_path):
    path = tmp_path / "machine.svg"
    path.write_text("before")
    done = thole(*words("dgx1v"), "topo", "--svg", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert path.read_text() == thole(*words("dgx1v"), "topo", "--svg", "-").stdout
    assert [entry.name for entry in tmp_path.glob("machine.svg*")] == ["machine.svg"], "nothing is left beside it"


@pytest.mark.parametrize("where, why", [("missing/machine.svg", "No such file or directory"), (".", "Is a directory")])
def test_where_no_picture_can_be_written_the_file_is_named(words, tmp_path, where, why):
    failed = thole(*words("dgx1v"), "topo", "--svg", tmp_path / where)
    assert failed.returncode == 69 and failed.stdout == ""
    assert "cannot write" in failed.stderr and str(tmp_path / where) in failed.stderr and why in failed.stderr


def test_a_device_is_written_to_and_stays_one(words, tmp_path):
    assert thole(*words("dgx1v"), "topo", "--svg", "/dev/null").returncode == 0
    assert pathlib.Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([THOLE, *words("none"), "topo", "--svg", pipe], env=environment()) as process:
        assert pipe.read_text().startswith("<svg ")
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "line, complaint",
    [
        (["--svg", "x.svg", "--matrix"], "--matrix"),
        (["--svg", "x.svg", "--json"], "--json"),
        (["--svg", ""], "--svg"),
        (["--svgg", "x"], "--svg"),
        (["3"], "3"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(words, line, complaint):
    failed = thole(*words("dgx1v"), "topo", *line)
    assert failed.returncode == 64 and complaint in failed.stderr


# --- the matrix ----------------------------------------------------------------------------------------------------------

def table_of(text):
    """{row: {column: cell}}, and the CPUs and nodes of the GPUs."""
    lines = text.split("\n\n")[0].splitlines()
    head = lines[0].split("\t")[1:]
    devices = [name for name in head if re.fullmatch(r"(GPU|NIC)\d+", name)]
    rows, near = {}, {}
    for line in lines[1:]:
        name, *cells = line.split("\t")
        rows[name] = {column: cell.strip() for column, cell in zip(devices, cells)}
        near[name] = cells[len(devices):]
    return rows, near


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_the_matrix_is_as_recorded_and_symmetric(words, name):
    shown = thole(*words(name), "topo", "--matrix")
    assert shown.returncode == 0, shown.stderr
    compare(GOLDEN / f"{name}-matrix.txt", shown.stdout)
    rows, near = table_of(shown.stdout)
    for a in rows:
        assert rows[a][a] == "X"
        for b in rows:
            assert rows[a][b] == rows[b][a]
            assert re.fullmatch(r"X|NV\d+|XGMI|C2C|PIX|PXB|PHB|NODE|SYS|N/A", rows[a][b])
        assert near[a][2:] == (["", "N/A"] if a.startswith("GPU") else [])


@pytest.mark.parametrize("name", SHIPPED + ODD)
def test_the_matrix_as_json_says_the_same(words, name):
    shown = json.loads(thole(*words(name), "topo", "--matrix", "--json").stdout)
    assert shown["schema"] == "thole/matrix/1"
    rows, near = table_of(thole(*words(name), "topo", "--matrix").stdout)
    assert [[cell or "N/A" for cell in row] for row in shown["joins"]] == [list(row.values()) for row in rows.values()]
    for device, (name_of_row, columns) in zip(shown["devices"], near.items()):
        if name_of_row.startswith("GPU"):
            assert [device["near_cpus"] or "N/A", "N/A" if device["numa"] is None else str(device["numa"])] == columns[:2]


# --- there and back again: what reads a table of nvidia-smi reads ours -----------------------------------------------------

PUBLISHED = ROOT / "tests/topologies/nvsmi"


def imported(text, tmp_path):
    """The words that make thole use the machine of this table."""
    table, machine = tmp_path / "table.txt", tmp_path / "imported.json"
    table.write_text(text)
    done = thole("capture", "--from", table, "-o", machine)
    assert done.returncode == 0, done.stderr
    return ["--machine", str(machine), "--state-dir", str(tmp_path / "state")]


@pytest.mark.parametrize("name", [name for name in SHIPPED + ODD if name != "none"])
def test_the_matrix_read_back_gives_the_same_matrix(words, tmp_path, name):
    first = thole(*words(name), "topo", "--matrix").stdout
    assert thole(*imported(first, tmp_path), "topo", "--matrix").stdout == first


def test_the_node_that_a_gpus_own_memory_is_comes_out_as_it_went_in(tmp_path):
    table = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    table += "GPU0\t X \tNV6\t0-71\t0\t\t4\nGPU1\tNV6\t X \t72-143\t1\t\t12\n"
    machine = imported(table, tmp_path)
    shown = thole(*machine, "topo", "--matrix").stdout
    assert shown.startswith(table)
    devices = json.loads(thole(*machine, "topo", "--matrix", "--json").stdout)["devices"]
    assert [device["memory_numa"] for device in devices] == [4, 12]


@pytest.mark.parametrize("name", sorted(path.stem for path in PUBLISHED.glob("*.txt")))
def test_a_published_table_comes_out_as_it_went_in(tmp_path, name):
    text = (PUBLISHED / f"{name}.txt").read_text()
    machine = imported(text, tmp_path)
    given, given_near = table_of(text)
    shown, shown_near = table_of(thole(*machine, "topo", "--matrix").stdout)
    assert [list(row.values()) for row in shown.values()] == [list(row.values()) for row in given.values()]
    for gpu, (cpus, numa) in ((gpu, near[:2]) for gpu, near in shown_near.items() if near):
        there = [column for column in given_near[gpu] if column]
        assert cpus in there or not any(re.match(r"\d+[-,]", column) for column in there)
        assert numa in there or len(there) < 2
    drawing = thole(*machine, "topo").stdout
    assert max(map(len, drawing.splitlines())) <= 80


@pytest.mark.parametrize(
    "name, table", [("dgx-a100", "dgx-a100"), ("dgx1v", "dgx1-volta"), ("dgx-h100", "8xh100-96c"), ("hgx-h200", "8xh200-snc2")]
)
def test_a_shipped_machine_is_joined_as_the_published_one(words, name, table):
    """GPUs among themselves; on the DGX A100, whose NICs were published, those too."""
    shown, shown_near = table_of(thole(*words(name), "topo", "--matrix").stdout)
    given, given_near = table_of((PUBLISHED / f"{table}.txt").read_text())
    for a in given:
        for b in given:
            if a.startswith("GPU") and (b.startswith("GPU") or name == "dgx-a100"):
                assert shown[a][b] == given[a][b], (a, b)
    if name in ("dgx-a100", "hgx-h200"):
        assert {gpu: near for gpu, near in shown_near.items() if near} == {
            gpu: near for gpu, near in given_near.items() if near
        }
