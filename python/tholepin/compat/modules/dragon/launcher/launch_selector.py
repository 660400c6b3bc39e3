"""The command ``dragon [OPTION...] PROG [ARG...]`` on one host: it becomes the program, which finds the drop-in as ``dragon``.

Options are read as dragonhpc 0.15's command reads them. What names hosts must come to this one; what is about Dragon's own
services (ports, transports, logs, labels, ssh) has nothing to say here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Mapping, NoReturn, Sequence

from tholepin import errors
from tholepin.system import Node

from .. import __version__

WORKLOAD_MANAGERS = ("slurm", "pbs+pals", "ssh", "k8s", "drun")
_WRONG = errors.WrongRequest.default_code
_LATER = "the drop-in runs on one host; several are for dragonhpc (pip install dragonhpc, without thole compat)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_WRONG, f"dragon: {message}\n  {self.format_usage()}")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of 0 or more, got {text!r}")
    return int(text)


def _port(text: str) -> int:
    number = _count(text)
    if not 1024 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{number} must be in port range 1024-65535")
    return number


def _hosts(text: str) -> list[str]:
    return [host.strip() for host in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dragon", description="Runs a program of Dragon on this host, on thole's claims.")
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--hostlist", type=_hosts, help="the hosts, separated by commas: this one")
    some.add_argument("--hostfile", help="a file that names the hosts, one a line: this one")
    parser.add_argument("-w", "--wlm", choices=WORKLOAD_MANAGERS, help="who gives the hosts")
    parser.add_argument("-N", "--nodes", type=_count, default=0, metavar="NODE_COUNT", help="how many of them: 1, or 0 for all")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-s", "--single-node-override", action="store_true", help="this host, whatever the surroundings say")
    where.add_argument("-m", "--multi-node-override", action="store_true", help="the hosts that are named or given: this one")
    parser.add_argument("--version", action="version", version=f"Dragon Version {__version__}, thole's drop-in")
    ours = parser.add_argument_group("read, and without meaning here")
    for names in (("-p", "--port"), ("--overlay-port",), ("--frontend-port",)):
        ours.add_argument(*names, type=_port, metavar="PORT")
    for names in (("-i", "--idle"), ("-T", "--telemetry-level")):
        ours.add_argument(*names, type=_count, metavar="N")
    for names in (
        ("-t", "--transport"), ("-o", "--overlay-transport"), ("-l", "--log-level"), ("--network-prefix",),
        ("--network-config",), ("--ssh-config-path",), ("--private-key",), ("--passphrase",),
    ):  # fmt: skip
        ours.add_argument(*names, metavar="WORD")
    for names in (
        ("-r", "--resilient"), ("-e", "--exhaust-resources"), ("--no-label",), ("--basic-label",), ("--verbose-label",),
    ):  # fmt: skip
        ours.add_argument(*names, action="store_true")
    parser.add_argument("prog", metavar="PROG", nargs="?", help="a program, or a file for Python")
    parser.add_argument("args", metavar="ARG", nargs=argparse.REMAINDER)
    return parser


def _is_this_one(host: str) -> bool:
    here = Node()
    own = {here.hostname, here.hostname.split(".")[0], "localhost", "127.0.0.1", "::1"}
    return host in own or host.split(".")[0] == here.hostname or host == here.ip


def _lines(path: str) -> list[str]:
    """The hosts that a file names, each once."""
    try:
        with open(path, encoding="utf-8") as file:
            return list(dict.fromkeys(line.strip() for line in file if line.strip()))
    except (OSError, UnicodeDecodeError) as problem:
        raise errors.WrongRequest("the hosts cannot be read", object=path, hint=str(problem)) from None


def _given_by_a_job(wlm: str | None, environment: Mapping[str, str]) -> int:
    """How many hosts the job around has; 1 where there is none."""
    slurm = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES")
    pbs = environment.get("PBS_NODEFILE")
    for name, job, start in (("slurm", slurm, "salloc or sbatch"), ("pbs+pals", pbs, "qsub")):
        if wlm == name and not job:
            what = {"slurm": "Slurm", "pbs+pals": "PBS"}[name]
            raise errors.WrongRequest(f"-w {name}: this is no job of {what}", hint=f"start it by {start}, or leave out -w")
    if slurm and wlm in (None, "slurm"):
        return int(slurm) if slurm.isdecimal() else 1
    if pbs and wlm in (None, "pbs+pals"):
        return len(_lines(pbs))
    return 1


def check_hosts(said: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Raises WrongRequest where the options, or the job around, mean another host than this one, or several."""
    hosts = list(dict.fromkeys(said.hostlist or [])) if said.hostfile is None else _lines(said.hostfile)
    if said.single_node_override:
        if said.wlm or hosts:
            raise errors.WrongRequest("-s is this host alone: leave out -w, --hostlist and --hostfile")
        return
    if said.wlm == "ssh" and not hosts:
        raise errors.WrongRequest("-w ssh: which hosts? give --hostlist or --hostfile")
    there = len(hosts) or _given_by_a_job(said.wlm, environment)
    if said.nodes > there:
        has = "there is one host" if there == 1 else f"there are {there}"
        raise errors.WrongRequest(f"-N {said.nodes}: {has}", hint=_LATER)
    wanted = said.nodes or there
    if wanted > 1:
        raise errors.WrongRequest(f"{wanted} hosts", object=", ".join(hosts), hint=f"{_LATER}; -N 1 or -s takes one")
    for host in hosts[:1]:
        if not _is_this_one(host):
            raise errors.WrongRequest("this is another host", object=host, hint=f"this one is {Node().hostname}; {_LATER}")


def command(prog: str, args: Sequence[str]) -> list[str]:
    """What is run: a program, or Python with a file that is none."""
    found = prog if os.path.isfile(prog) else shutil.which(prog)
    if found is None:
        raise errors.WrongRequest("there is no such program", object=prog)
    if prog.endswith(".py") or not os.access(found, os.X_OK):
        return [sys.executable, found, *args]
    return [found, *args]


def main(args: Sequence[str] | None = None) -> int:
    """The command; returns only where it cannot become the program."""
    said = _parser().parse_args(args)
    try:
        if said.prog is None:
            raise errors.WrongRequest("which program? dragon [OPTION...] PROG [ARG...]")
        check_hosts(said, os.environ)
        line = command(said.prog, said.args)
        os.execv(line[0] if os.sep in line[0] else os.path.join(".", line[0]), line)
    except errors.Error as problem:
        print(f"dragon: {problem}", file=sys.stderr)
        return problem.code
    except OSError as problem:
        print(f"dragon: {said.prog}: {problem.strerror}", file=sys.stderr)
        return 126
