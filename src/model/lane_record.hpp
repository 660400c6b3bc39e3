// What a lane says of the tasks it runs, where it outlives it: a small file that every process of the user can see in its
// memory, and write with a call (port/seen_record.hpp).
//
// How this works. A lane (the supervisor that runs a job's tasks) notes each step of a task here before anybody can ask about
// it:
//
//   taken      the store says that the task runs in this lane
//   reached    the child is about to call execve, and writes this itself: from here on the command may have had effects
//   ended      the lane has seen the end; how it ended is here before it is in the store
//
// Each lane draws a number for itself, which its tasks show (THOLE_TASK): by that whatever lives of them is known as its own.
//
// Whoever finds the record of a dead lane therefore knows what to do with a task that the store still calls running: not named
// here or only `taken`: it has never begun and is queued again; `ended`: the end is written to the store; `reached`: it is lost
// once nothing of it lives. A store that takes no more writes (a full disk) loses no status that way either.
//
// A copy of this file (`cp -a` of the queue's directory) tells of another queue's lane: what it says has ended has ended, and
// what lives of it is that queue's. It need not be of the moment at which the store was copied, so that it does not prove that
// something has not begun.
//
// So it is with one that was put back into its place from a backup, with what else there is of the queue: that is of the moment
// of the backup, and the store of another one. And with one whose disk was taken down and mounted again under this boot.
//
// Of another boot only an `ended` with its seal counts. The disk has of this file what the kernel happened to write, so such
// a record never proves that something has not begun.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace thole::model {

enum class TaskPhase : std::uint32_t { none, taken, reached, ended };

// Which process a pid means, as long as the machine is up: a pid is used again. 0: not known.
struct ProcessIdentity {
  std::uint64_t start_ticks = 0;             // of /proc/PID/stat, as in the first time namespace
  std::uint64_t number = 0;                  // of its pidfd, from Linux 6.9: told where /proc hides it, too
};

// Which file, as long as the machine is up. None: 0.
struct FileIdentity {
  std::uint64_t inode = 0, device = 0;
  bool operator==(const FileIdentity&) const = default;
};

// One task at a time; a lane with --per-gpu has several bays.
struct LaneBay {
  std::atomic<TaskPhase> phase;
  std::uint32_t runs;                        // which start of it, from 1
  std::uint64_t job, task;
  std::int32_t pid;                          // of the command; 0 until it is known
  std::int32_t limit_clock;                  // see below
  std::int64_t started_ms;                   // since 1970
  // The end.
  std::int32_t exit_code, signal;            // -1: not by this way
  std::uint32_t flags;                       // how_… below
  std::uint32_t seal;                        // end_seal() of the end: written before the phase says `ended`
  std::int64_t ended_ms;
  std::uint64_t peak_memory_kib, peak_gpu_mib;   // 0: not known
};

// A limit stands still while its task is paused. `limit_clock`: of a task that runs the seconds it has stood so far, rounded
// up; of one that is paused -1 less the seconds it has run. What was given a later or an earlier end (thole extend) counts as
// if it had stood longer, or less: so each may be below zero, and is then that far behind the half of its range.
inline constexpr std::int32_t half_of_clock = 1 << 30;
inline std::int32_t limit_clock(bool paused, std::chrono::milliseconds ran, std::chrono::milliseconds stood) {
  const auto coded = [](std::int64_t seconds) {
    seconds = std::clamp<std::int64_t>(seconds, 1 - half_of_clock, half_of_clock - 1);
    return static_cast<std::int32_t>(seconds < 0 ? half_of_clock - 1 - seconds : seconds);
  };
  return paused ? -1 - coded(std::chrono::floor<std::chrono::seconds>(ran).count())
                : coded(std::chrono::ceil<std::chrono::seconds>(stood).count());
}
inline bool is_of_paused(std::int32_t limit_clock) { return limit_clock < 0; }
inline std::chrono::milliseconds has_run(std::int32_t limit_clock, std::chrono::milliseconds since_its_start) {
  const bool paused = is_of_paused(limit_clock);
  const std::int32_t coded = paused ? -1 - limit_clock : limit_clock;
  const std::chrono::seconds told{coded < half_of_clock ? coded : half_of_clock - 1 - coded};
  return paused ? std::chrono::milliseconds(told) : since_its_start - told;
}

inline constexpr std::uint32_t how_core = 1, how_time_limit = 2, how_cancelled = 4, how_no_start = 8,
                               how_taken_down = 16;   // with its lane

inline constexpr unsigned lane_bays = 64;

// No lane's numbers. What may have begun under another boot, as far as the queue's file says, and when that is not sure either.
inline constexpr std::uint64_t lane_of_another_boot = 0xffffffff, lane_of_untold = 0xfffffffe;

// How far the end of a task is: its lane may be killed, and runners end, too. Who comes next goes on where that one was. It
// names its run itself, since a lane of an earlier build leaves it as it is: also by the mark and the start, since the first
// job of another queue's file in the same directory has the same number.
struct EndingOfOrphan {
  std::uint64_t job, task;
  std::uint32_t runs;
  std::atomic<std::uint32_t> steps;          // told so far: 1 INT, 2 TERM, 3 KILL; 0: the rest is of nobody
  std::int64_t told_ms;                      // the last of them, by the machine's steady clock
  std::uint32_t flags;                       // ending_… below
  std::uint32_t run;                         // run_seal()
};

inline constexpr std::uint32_t ending_for_limit = 1, ending_was_heard = 2;

struct LaneRecord {
  std::uint64_t magic;                       // lane_magic, or nobody has used this file
  std::array<char, 40> boot;                 // of the kernel under which it was written, as /proc names it
  std::int32_t pid;                          // of the lane
  std::atomic<std::uint32_t> claimed;        // 1: it has what it waited for, and a task (written by the lane)
  std::atomic<std::uint32_t> yield;          // 1: give way: leave the line, or end after the present tasks (by the runner)
  std::uint32_t store;                       // which file of the queue its jobs are in (JobWork::origin); 0: not known
  std::atomic<std::uint64_t> job;            // whose tasks it runs
  std::array<LaneBay, lane_bays> bays;
  // Behind all that earlier builds know: their records end here, or after the next, and are made longer with 0.
  std::array<ProcessIdentity, lane_bays> commands;     // of these bays
  std::array<EndingOfOrphan, lane_bays> endings;       // by the lane, and then the runner
  std::uint64_t pid_namespace;               // of the lane, by the kernel's number of it; 0: not known
  // Whose these are: a lane of an earlier build leaves what one before it has noted there.
  std::array<std::uint32_t, lane_bays> command_seals;     // command_seal()
  std::uint32_t namespace_seal;              // namespace_seal()
  std::array<std::uint32_t, 2> of_earlier_builds;   // 0 tells these nothing
  FileIdentity file;                         // this one: in a copy of the queue's directory it is another
  std::uint64_t number;                      // drawn at random
  std::uint32_t number_seal;                 // number_seal()
  std::uint32_t calls_seal;                  // calls_seal()
  std::uint64_t mounting;                    // of the file system that this file is on; 0: not known
  std::uint32_t mounting_seal;               // mounting_seal()
  std::atomic<std::int32_t> passed_over;     // by the lane, as it stands in line: its pid while others need not wait for it
  std::uint64_t start_ticks;                 // of the lane, as those of a command
  std::uint32_t start_seal;                  // start_seal()
};

inline constexpr std::uint32_t seal_of_nothing = 2166136261u;

inline std::uint32_t sealed(std::uint32_t hash, std::uint64_t value) {
  for (int byte = 0; byte < 8; ++byte, value >>= 8) hash = (hash ^ static_cast<std::uint32_t>(value & 0xff)) * 16777619u;
  return hash;
}

// Of whom this is the end, and which. Nobody syncs the record: after a loss of power its sectors may be of
// different moments, and only an end with its seal is one that was written.
inline std::uint32_t end_seal(const LaneBay& bay) {
  std::uint32_t hash = seal_of_nothing;
  for (const std::uint64_t value : {bay.job, bay.task, std::uint64_t{bay.runs}, std::uint64_t{bay.flags},
                                    static_cast<std::uint64_t>(bay.ended_ms)})
    hash = sealed(hash, value);
  return sealed(sealed(hash, static_cast<std::uint32_t>(bay.exit_code)), static_cast<std::uint32_t>(bay.signal));
}

// Which run this is, of all the queues that a directory has had. `mark`: with which THOLE_TASK of it begins.
inline std::uint32_t run_seal(const LaneBay& bay, std::string_view mark) {
  std::uint32_t hash = sealed(seal_of_nothing, static_cast<std::uint64_t>(bay.started_ms));
  for (const char character : mark) hash = sealed(hash, static_cast<unsigned char>(character));
  return hash;
}

// That the task in this bay has been told so many steps of its end at that time; `steps` is written apart, and last.
inline void put_ending(EndingOfOrphan& ending, const LaneBay& bay, std::string_view mark, std::chrono::milliseconds told,
                       std::uint32_t flags) {
  ending.job = bay.job;
  ending.task = bay.task;
  ending.runs = bay.runs;
  ending.run = run_seal(bay, mark);
  ending.told_ms = told.count();
  ending.flags = flags;
}

// Which command has this identity.
inline std::uint32_t command_seal(const LaneRecord& record, std::size_t number) {
  const LaneBay& bay = record.bays[number];
  const ProcessIdentity& command = record.commands[number];
  std::uint32_t hash = seal_of_nothing;
  for (const std::uint64_t value : {bay.job, bay.task, std::uint64_t{bay.runs}, command.start_ticks, command.number,
                                    static_cast<std::uint64_t>(bay.started_ms)})
    hash = sealed(hash, value);
  return sealed(sealed(hash, static_cast<std::uint32_t>(bay.pid)), static_cast<std::uint32_t>(record.pid));
}
inline ProcessIdentity command_of(const LaneRecord& record, std::size_t number) {
  return record.command_seals[number] == command_seal(record, number) ? record.commands[number] : ProcessIdentity{};
}

// Which lane was in this pid namespace.
inline std::uint32_t namespace_seal(const LaneRecord& record) {
  std::uint32_t hash = sealed(sealed(seal_of_nothing, static_cast<std::uint32_t>(record.pid)), record.pid_namespace);
  for (const char character : record.boot) hash = sealed(hash, static_cast<unsigned char>(character));
  return hash;
}
inline std::uint64_t pid_namespace_of(const LaneRecord& record) {
  return record.namespace_seal == namespace_seal(record) ? record.pid_namespace : 0;
}

// Which lane has drawn this number. 0: one of an earlier build, which has none.
inline std::uint32_t number_seal(const LaneRecord& record) { return sealed(namespace_seal(record), record.number); }
inline std::uint64_t number_of(const LaneRecord& record) {
  return record.number_seal == number_seal(record) ? record.number : 0;
}

// Which lane writes its record by calls alone. Each of them sets both times of the file, that of its content and that of any
// change, to the same moment; whoever puts an older one back into its place (`cp -a`, `rsync --inplace`, `tar`) sets the first
// one back, and nobody can set the other. A lane of an earlier build writes it through memory, which sets none on some disks.
inline std::uint32_t calls_seal(const LaneRecord& record) { return sealed(number_seal(record), 1); }

// While its disk was mounted which time. 0: not known.
inline std::uint32_t mounting_seal(const LaneRecord& record) { return sealed(number_seal(record), record.mounting); }
inline std::uint64_t mounting_of(const LaneRecord& record) {
  return record.mounting_seal == mounting_seal(record) ? record.mounting : 0;
}

// Since when this lane has been there: what has inherited its lock began later. 0: not known.
inline std::uint32_t start_seal(const LaneRecord& record) { return sealed(number_seal(record), record.start_ticks); }
inline std::uint64_t start_of(const LaneRecord& record) {
  return record.start_seal == start_seal(record) ? record.start_ticks : 0;
}

// A lane of an earlier build leaves what one before it has noted there.
inline bool is_passed_over(const LaneRecord& record) {
  return record.claimed.load() == 0 && record.pid != 0 && record.passed_over.load() == record.pid;
}

inline constexpr std::uint64_t lane_magic = 0x32656e616c686f74u;   // "tholane2"

static_assert(std::atomic<TaskPhase>::is_always_lock_free && sizeof(LaneBay) % 8 == 0);

}  // namespace thole::model
