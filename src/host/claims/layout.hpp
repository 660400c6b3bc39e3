// The bytes of the shared advisory files, and the names of the nodes. Pure: everything here takes bytes and gives values.
//
// How this works. `queue` and `who` are written by strangers: any content is possible. A record counts only with its magic and
// check sum, and every number in it is brought into range; what remains can cost somebody his place in line or show a wrong
// name, never more (exclusion is the kernel's locks alone). Records are read and written with pread and pwrite, one aligned
// record a call: a hostile truncate would kill a process that had mapped them, and a record of another size could be read
// short at the end of the file (a 56-byte record was: research prototype, bug b).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/claim.hpp"
#include "model/queue_view.hpp"

namespace thole::host {

inline constexpr unsigned turn_places = 1024;                          // waiting places of a directory
inline constexpr unsigned who_places = 1 + model::share_places;        // records of a slot: the exclusive owner, the sharers
inline constexpr std::uint64_t largest_ticket = std::uint64_t{1} << 62;  // beyond it a number is not one of ours

struct QueueHeader {
  std::uint64_t magic;
  std::uint64_t next;              // the next ticket's number
  std::uint32_t used;              // places below this one may hold tickets; the rest need not be read
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
  std::int64_t since_ms;
  std::uint64_t number;            // last: without it the record is none
};
static_assert(sizeof(TicketRecord) == 64 && offsetof(TicketRecord, number) == 56);

struct WhoRecord {
  std::uint32_t magic;
  std::uint16_t slot;
  std::uint16_t place;             // 0: exclusive, k + 1: share place k
  char id[16];
  std::uint32_t uid;
  std::uint32_t pid;
  std::uint64_t start;
  std::uint8_t boot[16];
  std::int64_t since_ms;
  std::int64_t until_ms;           // 0: no declared end
  std::uint64_t memory_mib;
  std::uint32_t flags;
  std::uint32_t key_check;         // of the slot's key: a recycled slot does not inherit records
  char command[416];
  std::uint64_t check;
};
static_assert(sizeof(WhoRecord) == 512 && alignof(WhoRecord) <= 8);

// The head of `who`: a bit for every record written since the slot was last seen free. A hint where to look first.
struct WhoMask {
  std::array<std::uint32_t, model::max_slots> bits;
};
static_assert(sizeof(WhoMask) == 512);

// Who a process is, beyond its pid: pids are used again.
struct ProcessIdentity {
  std::uint32_t uid = 0, pid = 0;
  std::uint64_t start = 0;
  std::array<std::uint8_t, 16> boot{};
};

// A waiter as read from `queue`.
struct Ticket {
  model::TicketView view;
  unsigned place = 0;
  std::uint32_t pid = 0;
  std::uint64_t start = 0;
};

// A holder as read from `who`.
struct HolderNote {
  std::string id, command;
  ProcessIdentity process;
  WallTime since{};
  std::optional<WallTime> until;
  std::uint64_t memory_mib = 0;
  bool shared = false, share_with_any = false;
  bool overdue = false;                // the claim is over; `process` was adopted by it and may still run
};

TicketRecord encode(const Ticket& ticket);
std::optional<Ticket> decode(const TicketRecord& record, unsigned place);
bool decode(const TicketRecord& record, unsigned place, Ticket& ticket);   // into a ticket that is there; false: none

WhoRecord encode(const HolderNote& note, unsigned slot, unsigned place, std::string_view key);
std::optional<HolderNote> decode(const WhoRecord& record, unsigned slot, unsigned place, std::string_view key);

QueueHeader fresh_queue_header();
QueueHeader sanitised(QueueHeader header);  // a header that is not ours becomes a fresh one that hides no place

// `devices`: one "slot key" a line. Lines that are none, repeated slots and repeated keys are passed over.
using SlotKeys = std::array<std::string, model::max_slots>;
SlotKeys parse_devices(std::string_view text);
std::string format_devices(const SlotKeys& keys);
bool is_key(std::string_view text);  // [A-Za-z0-9.:-]+, at most 120 bytes, no leading dot

std::string* free_slot(SlotKeys& keys);      // nullptr: there is none

std::string gpu_node(std::string_view key);
std::string share_node(std::string_view key, unsigned place);
std::string turn_node(unsigned place);

constexpr off_t ticket_offset(unsigned place) { return static_cast<off_t>(sizeof(QueueHeader) + place * sizeof(TicketRecord)); }
constexpr off_t who_offset(unsigned slot, unsigned place) {
  // By place first: the notes of a gang's neighbouring slots lie side by side and are written in one call.
  return static_cast<off_t>(sizeof(WhoMask) + (std::size_t{place} * model::max_slots + slot) * sizeof(WhoRecord));
}

}  // namespace thole::host
