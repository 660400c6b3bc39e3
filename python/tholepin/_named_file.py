"""A file that somebody has named to be written to: what others can have put in its place is refused, as src/base/named_file.hpp
has it for the program."""

from __future__ import annotations

import errno
import os
import stat

_MOST_LINKS = 40  # as the kernel's


def _refuse_anothers(path: str, folder: int, part: str, there: int, found: os.stat_result) -> None:
    around = os.fstat(folder)
    if around.st_mode & stat.S_ISVTX and around.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        is_anothers = found.st_uid not in (os.geteuid(), around.st_uid)
        if is_anothers or (stat.S_ISREG(found.st_mode) and not _has_no_name_but(folder, part, there, found)):
            why = "others can write to this directory, and one of them can have put this there"
            raise PermissionError(errno.EACCES, why, path)


def _has_no_name_but(folder: int, part: str, there: int, found: os.stat_result) -> bool:
    """As the program looks."""
    if found.st_nlink != 1:
        return False
    try:
        os.stat(f".thole-{os.urandom(8).hex()}", dir_fd=folder, follow_symlinks=False)
    except OSError:  # it is nowhere
        pass
    around = os.readlink(f"/proc/self/fd/{folder}")
    return os.readlink(f"/proc/self/fd/{there}") == os.path.join(around, part)


def open_to_append(path: str | os.PathLike[str]) -> int:
    """A descriptor that writes at its end, as a shell's >> does; the file is made where there is none."""
    named = os.fsdecode(path)
    while True:
        try:
            return _find_and_open(named)
        except FileExistsError:  # another has made it this moment
            continue
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, named) from None


def _find_and_open(named: str) -> int:
    left, links = named, 0
    writes = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    looks: list[int] = []
    try:

        def look(name: str, flags: int = 0, at: int | None = None) -> int:
            descriptor = os.open(name, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=at)
            looks.append(descriptor)
            return descriptor

        folder = look("/" if left.startswith("/") else ".")
        while True:
            part, slash, left = left.lstrip("/").partition("/")
            in_proc = os.fstat(folder).st_dev == os.stat("/proc").st_dev  # a link may lead to what has no name there
            if not slash and (in_proc or not part):
                return os.open(part or ("." if named else ""), writes, dir_fd=folder)
            follows = 0 if in_proc else os.O_NOFOLLOW
            try:
                there = look(part, follows, folder)
            except FileNotFoundError:
                if slash:
                    raise
                return os.open(part, writes | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
            found = os.fstat(there)
            if stat.S_ISLNK(found.st_mode):
                _refuse_anothers(named, folder, part, there, found)
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                left = os.readlink("", dir_fd=there) + slash + left
                folder = look("/") if left.startswith("/") else folder
            elif slash:
                folder = look(part, follows | os.O_DIRECTORY, folder)  # a directory is mounted by that
            else:
                _refuse_anothers(named, folder, part, there, found)
                return os.open(f"/proc/self/fd/{there}", writes)
    finally:
        for descriptor in looks:
            os.close(descriptor)
