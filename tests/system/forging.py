"""What a hostile user writes where he can: records in the shared file `who`, and notes of his own that speak of others' claims.

Run as a program by that user, so that nothing here imports more than Python has: forging.py ACTION WORDS…
"""
import fcntl
import os
import struct
import sys

DIRECTORY = "/run/thole"
MASK = (1 << 64) - 1
WHO_MAGIC, NOTE_MAGIC = 0x316F6877, 0x31746F6E
SHARED, WITH_ANY, OVERDUE = 1, 2, 8


def checksum(record):
    total, factor = 14695981039346656037, 0x9E3779B97F4A7C15
    for at in range(0, len(record) - 7, 8):
        word, = struct.unpack_from("<Q", record, at)
        total = (total + ((word ^ (word >> 32)) * factor)) & MASK
        factor = (factor + 0xD1342543DE82EF96) & MASK
    return total ^ (total >> 31)


def devices():
    return {int(slot): key for slot, key in (line.split() for line in open(DIRECTORY + "/devices"))}


def start_time(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19])
    except OSError:                                            # hidepid, or another pid namespace
        return 0


def boot():
    return bytes.fromhex(open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", ""))


def forge_who(claim, uid, pid, flags, memory, until, command):
    """Every record that `who` had before there were notes: all units belong to this claim of this user."""
    with open(DIRECTORY + "/who", "r+b") as who:
        for slot, key in devices().items():
            of_key = 14695981039346656037
            for c in key.encode():
                of_key = ((of_key ^ c) * 1099511628211) & MASK
            for berth in range(17):
                record = bytearray(struct.pack("<IHH16sIIQ16sqqQII416sQ", WHO_MAGIC, slot, berth, claim.encode(), uid, pid,
                                               start_time(pid), boot(), 1, until, memory, flags | (SHARED if berth else 0),
                                               (of_key >> 20) & 0xFFFFFFFF, command.encode(), 0))
                struct.pack_into("<Q", record, 504, checksum(record) | 1)
                who.seek(512 + (berth * 128 + slot) * 512)
                who.write(record)


def note(claim, pid, flags, memory, until, command, berth):
    """A note of mine: all units are mine in this berth (0 exclusively, k + 1 berth k of the sharers)."""
    keys, about = devices(), os.stat(DIRECTORY)
    text = bytearray(struct.pack("<Q", ((about.st_ino * 0x9E3779B97F4A7C15) & MASK) ^ about.st_dev))
    berths = bytearray(128)
    for slot in sorted(keys):
        berths[slot] = berth + 1
        text += bytes([slot]) + keys[slot].encode()
    scope = 14695981039346656037
    for byte in text:
        scope = ((scope ^ byte) * 1099511628211) & MASK
    record = bytearray(
        struct.pack(
            "<II16sQII16sqqQQ128s288sQ",
            NOTE_MAGIC,
            flags | (SHARED if berth else 0),
            claim.encode(),
            start_time(pid),
            pid,
            0,
            boot(),
            1,
            until,
            memory,
            scope,
            bytes(berths),
            command.encode(),
            0,
        )
    )
    struct.pack_into("<Q", record, 504, checksum(record) | 1)
    return bytes(record)


def forge_notes(records):
    """Live ones, until standard input ends."""
    path = f"{DIRECTORY}/notes/{os.getuid()}-0bad0bad"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"".join(records))
    fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))      # F_OFD_SETLK: all of them are live
    print("up", flush=True)
    sys.stdin.read()


def read_lock_everything():
    """A read lock on every file there, until standard input ends."""
    kept = []
    for folder, _, names in os.walk(DIRECTORY):
        for name in [*names, "."]:
            try:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
                fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
                kept.append(fd)
            except OSError:
                pass
    print("up", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    action, *words = sys.argv[1:]
    if action == "who":
        claim, uid, pid, flags, memory, until, command = words
        forge_who(claim, int(uid), int(pid), int(flags), int(memory), int(until), command)
    elif action == "notes":
        claim, pid, flags, memory, until, command = words
        forge_notes([note(claim, int(pid), int(flags), int(memory), int(until), command, berth) for berth in range(17)])
    elif action == "read-lock":
        read_lock_everything()
