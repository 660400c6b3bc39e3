// The bytes of the shared advisory files, and the names of the nodes. Pure: everything here takes bytes and gives values.
//
// How this works. `queue` and `who` are written by strangers, and a note by whoever likes: any content is possible. A record
// counts only with its magic and check sum, and every number in it is brought into range; what remains can cost somebody his
// ticket or show a wrong name, never more (exclusion is the kernel's locks alone). Records are read and written with
// pread and pwrite, one aligned record a call: a hostile truncate would kill a process that had mapped them, and a record of
// another size could be read short at the end of the file (a 56-byte record was: research prototype, bug b).
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/claims/node_number.hpp"
#include "model/claim.hpp"
#include "model/queue_view.hpp"

namespace thole::host {

inline constexpr unsigned most_tickets = 1024;                         // in the line of a directory

struct QueueHeader {
  std::uint64_t magic;
  std::uint64_t directory;         // of a user's own file: the number of the one that it is for; else 0
  std::uint32_t used;              // records below this one may be tickets; the rest need not be read
  std::uint32_t reserved[11];
};
static_assert(sizeof(QueueHeader) == 64);

struct TicketRecord {
  std::uint64_t eligible[2];
  std::uint32_t uid;
  std::uint32_t pid;
  std::uint64_t start;             // start time of pid, clock ticks since boot
  std::uint32_t memory_mib;
  std::uint32_t time_s;            // 0: not declared
  std::uint16_t count;
  std::uint8_t flags;
  std::uint8_t leave;
  std::uint32_t check;             // of all other fields
  std::uint32_t since_s;           // since 1970
  std::uint16_t max_load, max_memory;  // per mille
  std::uint64_t number;            // CLOCK_BOOTTIME in us when it joined the line; last: without it the record is none
};
static_assert(sizeof(TicketRecord) == 64 && offsetof(TicketRecord, number) == 56);

// A claim as its owner notes it down in a file of his own (notes.hpp).
struct NoteRecord {
  std::uint32_t magic;
  std::uint32_t flags;
  char id[16];
  std::uint64_t start;             // start time of pid, clock ticks since boot
  std::uint32_t pid;
  std::uint32_t pid_namespace;     // whose number `pid` is; 0: not known
  std::uint8_t boot[16];
  std::int64_t since_ms;
  std::int64_t until_ms;           // 0: no declared end
  std::uint64_t memory_mib;
  std::uint64_t scope;             // of the directory and the keys: elsewhere, and for a recycled slot, it is no record
  std::uint8_t berths[model::max_slots];   // by slot: 0 not claimed, 1 exclusively, k + 2 berth k
  char command[288];               // with tells_nodes its end is the nodes' numbers; of more than most_nodes_told their sums
  std::uint64_t check;
};
static_assert(sizeof(NoteRecord) == 512 && alignof(NoteRecord) <= 8);

// All of `who`: a word for every slot, not zero since the slot was claimed until it is seen free. A hint where to look first.
struct WhoMask {
  std::array<std::uint32_t, model::max_slots> slots;
};
static_assert(sizeof(WhoMask) == 512);

// Who a process is, beyond its pid: pids are used again.
struct ProcessIdentity {
  std::uint32_t uid = 0, pid = 0;
  std::uint32_t pid_namespace = 0;     // the kernel's number of it; 0: not known
  std::uint64_t start = 0;
  std::array<std::uint8_t, 16> boot{};
};
inline constexpr std::uint32_t first_pid_namespace = 0xEFFFFFFC;   // PROC_PID_INIT_INO of linux/proc_ns.h

// A waiter as read from `queue`.
struct WrittenTicket {
  model::TicketView view;
  unsigned index = 0;                  // of its record, and of the turn FIFO that its waiter keeps locked
  std::uint32_t pid = 0;
  std::uint64_t start = 0;
};

// The key of each slot, as `devices` says; "" for an unused one. And the inodes of their nodes; 0: not said.
using SlotKeys = std::array<std::string, model::max_slots>;
using SlotInodes = std::array<std::uint64_t, model::max_slots>;

using SlotNodes = std::array<NodeNumber, model::max_slots>;
inline constexpr std::size_t most_nodes_told = 16;                    // a note has room for so many

// What a claim's owner says of it. `process.uid` is not written: a reader puts the owner of the file there.
struct Note {
  std::string id, command;
  ProcessIdentity process;             // which took the locks
  WallTime since{};
  std::optional<WallTime> until;
  std::uint64_t memory_mib = 0;
  bool shared = false, share_with_any = false;
  bool overdue = false;                // the claim is over; `process` was adopted by it and may still run
  std::array<std::uint8_t, model::max_slots> berths{};   // as in the record
  SlotNodes nodes{};                                     // what was locked; of no number: not told
  NodeNumber nodes_sum{};                                // of them all; of no number: not told

  // `berth`: 0 exclusively, k + 1 berth k of the sharers. `node`: the unit's FIFO.
  void put(unsigned slot, unsigned berth, const NodeNumber& node) {
    berths[slot] = static_cast<std::uint8_t>(berth + 1);
    nodes[slot] = node;
  }
  // The slots whose nodes are others by now; all of the claim where one is, or may be, and nobody can tell which. `now`: the
  // node of each slot claimed.
  std::vector<unsigned> exchanged(const SlotNodes& now) const;
  bool names(unsigned slot, unsigned berth) const { return berths[slot] == berth + 1; }
  bool names(unsigned slot) const { return berths[slot] != 0; }
};

TicketRecord encode(const WrittenTicket& ticket);
bool says_the_same(const WrittenTicket& one, const WrittenTicket& other);   // as records
// `now`: a number beyond it is nobody's: with it the next in line would have none that counts.
std::optional<WrittenTicket> decode(const TicketRecord& record, unsigned index, std::uint64_t now);
bool decode(const TicketRecord& record, unsigned index, std::uint64_t now, WrittenTicket& ticket);   // into one that is there

// `directory`: a number of the state directory that no other one has. A note counts only there and while its slots keep their
// keys.
NoteRecord encode(const Note& note, const SlotKeys& keys, std::uint64_t directory);
std::optional<Note> decode(const NoteRecord& record, const SlotKeys& keys, std::uint64_t directory);
bool is_note(const NoteRecord& record);     // of whatever directory and keys

QueueHeader fresh_queue_header();
// Of a file of tickets that are a user's own (own_tickets.hpp), in the directory of this number.
QueueHeader header_of_own(std::uint64_t directory);
bool is_header_of_own(const QueueHeader& header, std::uint64_t directory);
QueueHeader sanitised(QueueHeader header);  // a header that is not ours becomes a fresh one that hides no ticket

// `devices`: one "slot key" a line. Lines that are none, repeated slots and repeated keys are passed over. Where users make the
// directory, a line "node SLOT INODE" for each lock node: one of another number was not made by thole (claim_directory.hpp).
SlotKeys parse_devices(std::string_view text);
SlotInodes parse_device_nodes(std::string_view text);
std::string format_devices(const SlotKeys& keys, const SlotInodes& nodes = {});
bool is_key(std::string_view text);  // [A-Za-z0-9.:-]+, at most 120 bytes, no leading dot

std::string* free_slot(SlotKeys& keys);      // nullptr: there is none

// The mark of a FIFO that `thole init --take-back` is about to replace (base/same_file.hpp, being_taken) counts while `taking`
// is announced (announced.hpp): that of a killed init says nothing.
inline constexpr const char* taking_file = "taking";

// Announced while `thole init` completes the directory: nobody claims in a fallback meanwhile.
inline constexpr const char* completing_file = "completing";

std::string gpu_node(std::string_view key);
std::string share_node(std::string_view key, unsigned berth);
std::vector<std::string> nodes_of(const std::string& unit);   // all of them
std::string turn_node(unsigned index);

constexpr off_t ticket_offset(unsigned index) { return static_cast<off_t>(sizeof(QueueHeader) + index * sizeof(TicketRecord)); }
}  // namespace thole::host
