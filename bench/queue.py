#!/usr/bin/env python3
"""Every figure that the durable queue promises, on a simulated machine and queues of its own: submissions one call each with
nothing and with many queued (in turn, beside a bare start of the program), arrays and lines, idle submit to start, tasks a
second beside a bare posix_spawn loop, the runner's memory, and a job of a million tasks.

Usage: bench/queue.py --thole build/thole [--spawn-loop PROGRAM] [--quick] [--only NAME,...]
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

TRUE = "/bin/true"


class Queue:
    """A queue of its own, with the claims of a simulated machine of its own."""

    def __init__(self, thole, folder, machine="8xA100"):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="queue-", dir=folder))
        self.words = [thole, "--machine", machine, "--state-dir", str(self.folder / "state")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("THOLE_", "CUDA_"))}
        self.environment = dict(kept, THOLE_QUEUE_DIR=str(self.folder / "queue"), THOLE_PERSONAL_DIR=str(self.folder))
        os.chmod(self.folder, 0o700)

    def __call__(self, *words, check=True):
        done = subprocess.run([*self.words, *map(str, words)], capture_output=True, text=True, env=self.environment)
        if check and done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def timed(self, *words):
        """Seconds from the call to the end of the program; without the pipes and threads of subprocess, which take longer."""
        words = [*self.words, *map(str, words)]
        nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        begin = time.perf_counter()
        pid = os.posix_spawn(words[0], words, self.environment, file_actions=nowhere)
        _, status = os.waitpid(pid, 0)
        took = time.perf_counter() - begin
        if status != 0:
            raise SystemExit(f"{' '.join(words)}: status {os.waitstatus_to_exitcode(status)}")
        return took

    def runner(self):
        """The process that serves this queue."""
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                environment = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if b"__runner" in words and str(self.folder).encode() in environment + b"\0".join(words):
                parent = int(pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                if b"__runner" not in pathlib.Path(f"/proc/{parent}/cmdline").read_bytes():
                    return int(entry)
        return None

    def close(self):
        self("cancel", "all", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def pss_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return None


def row(name, value, bound, met):
    print(f"| {name} | {value} | {bound} | {'met' if met else '**missed**'} |", flush=True)


def disk(folder):
    """The median of a bare fdatasync after writing what a submission writes, seven pages of a file that has them already."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for number in range(108):
            file.seek(number % 8 * 28_672)
            file.write(os.urandom(28_672))
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times[8:]) * 1000


def submissions(args, folder):
    rounds, deep = (60, 1000) if args.quick else (300, 10_000)
    empty, full = Queue(args.thole, folder), Queue(args.thole, folder)
    for number in range(deep):
        full("submit", "-q", "--hold", TRUE, number)
    plain, at_none, at_deep = [], [], []
    for number in range(rounds):
        plain.append(empty.timed("--version"))
        at_none.append(empty.timed("submit", "-q", "--hold", TRUE, number))
        at_deep.append(full.timed("submit", "-q", "--hold", TRUE, number))
    rates = [1 / statistics.median(times) for times in (plain, at_none, at_deep)]
    print(f"| bare start of the program (`--version`) | {rates[0]:.0f}/s | | |")
    print(f"| a bare fdatasync on this disk, p50 | {disk(folder):.2f} ms | | |")
    row("`thole submit`, one call a job, few queued", f"{rates[1]:.0f}/s", "300/s", rates[1] >= 300)
    row(f"… with {deep:,} jobs queued, of that rate", f"{rates[2] / rates[1]:.2f}", "0.9", rates[2] >= 0.9 * rates[1])
    empty.close()
    full.close()


def arrays(args, folder):
    tasks = 50_000 if args.quick else 500_000
    queue = Queue(args.thole, folder)
    took = queue.timed("submit", "-q", "--hold", "--array", f"0-{tasks - 1}", TRUE, "{index}")
    row(f"an array of {tasks:,} tasks", f"{tasks / took:,.0f} tasks/s", "50,000/s", tasks / took >= 50_000)
    lines = queue.folder / "lines"
    lines.write_text("".join(f"--lr 1e-3 --seed {number}\n" for number in range(tasks)))
    took = queue.timed("submit", "-q", "--hold", "--each-line", lines, TRUE)
    row(f"`--each-line`, {tasks:,} lines", f"{tasks / took:,.0f} tasks/s", "50,000/s", tasks / took >= 50_000)
    queue.close()


def latency(args, folder):
    rounds = 30 if args.quick else 200
    queue = Queue(args.thole, folder)
    fifo = queue.folder / "started"
    os.mkfifo(fifo)
    queue("submit", "-q", "--begin", "10d", TRUE)     # keeps the runner alive
    reader = os.open(fifo, os.O_RDWR)
    from_call, from_answer, cold = [], [], None
    for number in range(rounds + 1):
        begin = time.perf_counter()
        queue.timed("submit", "-q", "sh", "-c", f"echo > {fifo}")
        answered = time.perf_counter()
        os.read(reader, 1)
        started = time.perf_counter()
        if number == 0:
            cold = started - begin
            continue
        from_call.append((started - begin) * 1000)
        from_answer.append((started - answered) * 1000)
        time.sleep(0.02)                               # idle again
    p50 = statistics.median(from_call)
    row("idle `submit` to the job's first write, from the call, p50", f"{p50:.1f} ms", "8 ms", p50 <= 8)
    print(f"| … from the answer, p50 | {statistics.median(from_answer):.1f} ms | | |")
    print(f"| … the first one | {cold * 1000:.1f} ms | report | |")
    queue.close()


def launching(args, folder):
    if not args.spawn_loop:
        print("| tasks a second beside a bare loop | not measured: no --spawn-loop | | |")
        return
    tasks, rounds = (300, 3) if args.quick else (2000, 5)
    for slots in (2, 8):
        ratios = []
        for _ in range(rounds):
            queue = Queue(args.thole, folder, f"{slots}xA100")
            def bare():
                begin = time.perf_counter()
                subprocess.run([args.spawn_loop, str(tasks), str(slots)], check=True)
                return time.perf_counter() - begin
            alone = bare()
            begin = time.perf_counter()
            queue("submit", "-q", "--array", f"0-{tasks - 1}", TRUE, "{index}")
            queue("wait")
            took = time.perf_counter() - begin
            ratios.append((alone + bare()) / 2 / took)
            queue.close()
        ratio = statistics.median(ratios)
        row(
            f"an array of {tasks} tasks that do nothing on {slots} GPUs, submit to the last end, of a bare posix_spawn loop",
            f"{ratio:.2f}",
            "0.50",
            ratio >= 0.50,
        )


def memory(args, folder):
    queue = Queue(args.thole, folder, "1xA100")
    holder = subprocess.Popen([*queue.words, "run", "-q", "sleep", "600"], env=queue.environment)
    try:
        queue("submit", "-q", "--array", "0-99999", TRUE, "{index}")
        time.sleep(1)
        runner = queue.runner()
        pss = pss_mib(runner) if runner else float("nan")
        row("the runner's memory (PSS) with 100,000 tasks queued", f"{pss:.1f} MiB", "10 MiB", pss <= 10)
        before = sum(
            map(int, pathlib.Path(f"/proc/{runner}/stat").read_text(errors="replace").rpartition(")")[2].split()[11:13])
        )
        time.sleep(5)
        after = sum(
            map(int, pathlib.Path(f"/proc/{runner}/stat").read_text(errors="replace").rpartition(")")[2].split()[11:13])
        )
        row("its CPU time in 5 s of waiting", f"{(after - before) * 10} ms", "0", after - before <= 1)
    finally:
        holder.terminate()
        holder.wait()
        queue.close()


def million(args, folder):
    tasks = 1_000_000
    queue = Queue(args.thole, folder)
    queue("submit", "-q", "--hold", "--array", f"0-{tasks - 1}", TRUE, "{index}")
    listing = statistics.median(queue.timed("jobs") for _ in range(9)) * 1000
    row("`jobs` with an array of a million tasks, p50", f"{listing:.0f} ms", "100 ms", listing <= 100)
    cancelling = queue.timed("cancel", "1")
    row("`cancel` of it", f"{cancelling:.2f} s", "1 s", cancelling <= 1)
    size = sum(path.stat().st_size for path in (queue.folder / "queue").rglob("*") if path.is_file()) / 1e6
    row("its files", f"{size:.1f} MB", "200 MB", size < 200)
    queue.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thole", required=True, type=os.path.abspath)
    parser.add_argument("--spawn-loop", type=os.path.abspath, help="build/bench_spawn_loop")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="submissions,arrays,latency,launching,memory,million")
    args = parser.parse_args()
    print("| | | bound | |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="thole-bench-") as folder:
        for name in args.only.split(","):
            globals()[name](args, folder)


if __name__ == "__main__":
    main()
