#include "host/claims/layout.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "base/hash.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::uint64_t queue_magic = 0x31657565'7571'6874;  // "thqueue1"
constexpr std::uint64_t own_magic = 0x31656e69'6c6f6874;     // "tholine1"
constexpr std::uint32_t note_magic = 0x31'74'6f'6e;          // "not1"

enum Flag : unsigned {
  shared_flag = 1, share_with_any_flag = 2, trust_claims_flag = 4, overdue_flag = 8, beside_mine_flag = 16,
  beside_any_flag = 32, tells_nodes_flag = 256   // 64, 128: in forms that no release has written
};

// Each word times an odd number of its own: one changed word always shows, and the multiplications do not wait for each
// other (every pass reads every ticket: chained ones took a third of it with 500 waiters).
std::uint64_t checksum(const void* bytes, std::size_t size) {
  std::uint64_t sum = 14695981039346656037u, factor = 0x9e3779b97f4a7c15u;
  const char* from = static_cast<const char*>(bytes);
  for (std::size_t i = 0; i + 8 <= size; i += 8, factor += 0xd1342543de82ef96u) {
    std::uint64_t word;
    std::memcpy(&word, from + i, 8);
    sum += (word ^ (word >> 32)) * factor;
  }
  return sum ^ (sum >> 31);
}

// The field `check` itself counts as zero.
std::uint32_t ticket_check(const TicketRecord& record) {
  TicketRecord unchecked = record;
  unchecked.check = 0;
  return static_cast<std::uint32_t>(checksum(&unchecked, sizeof unchecked)) | 1;
}

std::uint64_t note_check(const NoteRecord& record) {
  NoteRecord unchecked = record;
  unchecked.check = 0;
  return checksum(&unchecked, sizeof unchecked) | 1;
}

// Of the directory, and of the slots claimed with their keys.
std::uint64_t scope_of(const std::uint8_t (&berths)[model::max_slots], const SlotKeys& keys, std::uint64_t directory) {
  std::string text(reinterpret_cast<const char*>(&directory), sizeof directory);
  for (unsigned slot = 0; slot < model::max_slots; ++slot) {
    if (berths[slot] == 0) continue;
    text += static_cast<char>(slot);
    text += keys[slot];
  }
  return fnv1a(text);
}

template <typename To, typename From>
To clamped(From value) {
  return static_cast<To>(std::min<std::uint64_t>(static_cast<std::uint64_t>(value), std::numeric_limits<To>::max()));
}

std::int64_t to_ms(WallTime when) { return when.time_since_epoch().count(); }

// Instants beyond the year 9999 would overflow the calendar of whoever prints them.
constexpr std::int64_t latest_ms = 253402300799000;
WallTime from_ms(std::int64_t ms) { return WallTime(Millis(std::clamp<std::int64_t>(ms, 0, latest_ms))); }

template <std::size_t n>
std::string text_of(const char (&bytes)[n]) {
  return std::string(bytes, strnlen(bytes, n));
}

template <std::size_t n>
void put_text(char (&bytes)[n], std::string_view text) {
  std::memcpy(bytes, text.data(), std::min(n, text.size()));
}

model::SlotSet slot_set(const std::uint64_t (&words)[2]) {
  static_assert(sizeof(model::SlotSet) == sizeof words && std::is_trivially_copyable_v<model::SlotSet>);
  model::SlotSet set;
  std::memcpy(&set, words, sizeof words);   // shifting and joining sets of 128 bits is several times slower
  return set;
}

}  // namespace

TicketRecord encode(const WrittenTicket& ticket) {
  static const model::SlotSet low(~std::uint64_t{0});
  TicketRecord record{};
  record.eligible[0] = (ticket.view.eligible & low).to_ullong();
  record.eligible[1] = ((ticket.view.eligible >> 64) & low).to_ullong();
  record.uid = ticket.view.uid;
  record.pid = ticket.pid;
  record.start = ticket.start;
  record.memory_mib = clamped<std::uint32_t>(ticket.view.memory_mib);
  record.time_s = ticket.view.time ? std::max(1u, clamped<std::uint32_t>(ticket.view.time->count())) : 0;
  record.count = clamped<std::uint16_t>(ticket.view.count);
  record.leave = clamped<std::uint8_t>(ticket.view.leave);
  record.flags = static_cast<std::uint8_t>((ticket.view.shared ? shared_flag : 0u) |
                                           (ticket.view.share_with_any ? share_with_any_flag : 0u) |
                                           (ticket.view.trust_claims ? trust_claims_flag : 0u) |
                                           (ticket.view.beside == model::Beside::mine ? beside_mine_flag : 0u) |
                                           (ticket.view.beside == model::Beside::any ? beside_any_flag : 0u));
  record.since_s = clamped<std::uint32_t>(to_ms(ticket.view.since) / 1000);
  record.max_load = ticket.view.max_load_permille;
  record.max_memory = ticket.view.max_memory_permille;
  record.number = ticket.view.number;
  record.check = ticket_check(record);
  return record;
}

bool says_the_same(const WrittenTicket& one, const WrittenTicket& other) {
  const TicketRecord first = encode(one), second = encode(other);
  return std::memcmp(&first, &second, sizeof first) == 0;
}

bool decode(const TicketRecord& record, unsigned index, std::uint64_t now, WrittenTicket& ticket) {
  if (record.number == 0 || record.number > now || record.check != ticket_check(record)) return false;
  ticket.view.number = record.number;
  ticket.view.uid = record.uid;
  ticket.view.eligible = slot_set(record.eligible);
  ticket.view.count = std::clamp<unsigned>(record.count, 1, model::max_slots);
  ticket.view.shared = (record.flags & shared_flag) != 0;
  ticket.view.share_with_any = (record.flags & share_with_any_flag) != 0;
  ticket.view.trust_claims = (record.flags & trust_claims_flag) != 0;
  ticket.view.beside = (record.flags & beside_any_flag) != 0    ? model::Beside::any
                       : (record.flags & beside_mine_flag) != 0 ? model::Beside::mine
                                                                : model::Beside::none;
  ticket.view.memory_mib = record.memory_mib;
  ticket.view.time = record.time_s != 0 ? std::optional(Seconds(record.time_s)) : std::nullopt;
  ticket.view.leave = record.leave;
  ticket.view.since = from_ms(std::int64_t{record.since_s} * 1000);
  ticket.view.max_load_permille = record.max_load;
  ticket.view.max_memory_permille = record.max_memory;
  ticket.index = index;
  ticket.pid = record.pid;
  ticket.start = record.start;
  return ticket.view.eligible.any();
}

std::optional<WrittenTicket> decode(const TicketRecord& record, unsigned index, std::uint64_t now) {
  WrittenTicket ticket;
  return decode(record, index, now, ticket) ? std::optional(ticket) : std::nullopt;
}

namespace {

std::vector<unsigned> claimed_slots(const std::uint8_t* berths) {
  std::vector<unsigned> claimed;
  for (unsigned slot = 0; slot < model::max_slots; ++slot)
    if (berths[slot] != 0) claimed.push_back(slot);
  return claimed;
}

// Odd factors, so that no other number of one node gives the same. 0 where one of them has none; else never.
template <typename Number>
Number sum_of(const std::vector<unsigned>& claimed, const SlotNodes& nodes, Number NodeNumber::*number) {
  Number sum = 0;
  for (const unsigned slot : claimed) {
    if (nodes[slot].*number == 0) return 0;
    sum += nodes[slot].*number * static_cast<Number>(0x9e3779b97f4a7c15u + 0xd1342543de82ef96u * slot);
  }
  return std::max<Number>(sum, 1);
}

NodeNumber sum_of_nodes(const std::vector<unsigned>& claimed, const SlotNodes& nodes) {
  return {sum_of(claimed, nodes, &NodeNumber::inode), sum_of(claimed, nodes, &NodeNumber::born),
          sum_of(claimed, nodes, &NodeNumber::generation)};
}

// At the end of the text: the number of each, or of more than there is room for their sum.
std::size_t told_nodes(std::size_t claimed) { return claimed > most_nodes_told ? 1 : claimed; }

// None where not all of them are known.
std::vector<NodeNumber> nodes_to_tell(const Note& note) {
  const std::vector<unsigned> claimed = claimed_slots(note.berths.data());
  if (note.nodes_sum.inode != 0) return {note.nodes_sum};
  std::vector<NodeNumber> nodes;
  for (const unsigned slot : claimed)
    if (note.nodes[slot].inode != 0) nodes.push_back(note.nodes[slot]);
  if (nodes.size() != claimed.size()) return {};
  if (claimed.size() > most_nodes_told) return {sum_of_nodes(claimed, note.nodes)};
  return nodes;
}

void read_nodes(const NoteRecord& record, Note& note) {
  const std::vector<unsigned> claimed = claimed_slots(record.berths);
  std::vector<NodeNumber> nodes(told_nodes(claimed.size()));
  const std::size_t at = sizeof record.command - nodes.size() * sizeof nodes[0];
  note.command = std::string(record.command, strnlen(record.command, at));
  std::memcpy(nodes.data(), record.command + at, nodes.size() * sizeof nodes[0]);
  if (claimed.size() > most_nodes_told) note.nodes_sum = nodes.front();
  else
    for (std::size_t i = 0; i < claimed.size(); ++i) note.nodes[claimed[i]] = nodes[i];
}

}  // namespace

std::vector<unsigned> Note::exchanged(const SlotNodes& now) const {
  const std::vector<unsigned> claimed = claimed_slots(berths.data());
  if (nodes_sum.inode != 0) return sum_of_nodes(claimed, now).is(nodes_sum) ? std::vector<unsigned>{} : claimed;
  std::vector<unsigned> others;
  for (const unsigned slot : claimed)
    if (nodes[slot].inode != 0 && now[slot].inode != 0 && !nodes[slot].is(now[slot])) others.push_back(slot);
  return others;
}

NoteRecord encode(const Note& note, const SlotKeys& keys, std::uint64_t directory) {
  NoteRecord record{};
  record.magic = note_magic;
  put_text(record.id, note.id);
  record.pid = note.process.pid;
  record.pid_namespace = note.process.pid_namespace;
  record.start = note.process.start;
  std::memcpy(record.boot, note.process.boot.data(), sizeof record.boot);
  record.since_ms = to_ms(note.since);
  record.until_ms = note.until ? to_ms(*note.until) : 0;
  record.memory_mib = note.memory_mib;
  record.flags = (note.shared ? shared_flag : 0u) | (note.share_with_any ? share_with_any_flag : 0u) |
                 (note.overdue ? overdue_flag : 0u);
  std::copy(note.berths.begin(), note.berths.end(), record.berths);
  record.scope = scope_of(record.berths, keys, directory);
  const std::vector<NodeNumber> nodes = nodes_to_tell(note);
  const std::size_t room = sizeof record.command - nodes.size() * sizeof(NodeNumber);
  if (!nodes.empty()) record.flags |= tells_nodes_flag;
  std::memcpy(record.command + room, nodes.data(), nodes.size() * sizeof(NodeNumber));
  // A program that knows of no nodes reads up to a NUL.
  std::memcpy(record.command, note.command.data(), std::min(room - 1, note.command.size()));
  record.check = note_check(record);
  return record;
}

bool is_note(const NoteRecord& record) { return record.magic == note_magic && record.check == note_check(record); }

std::optional<Note> decode(const NoteRecord& record, const SlotKeys& keys, std::uint64_t directory) {
  if (!is_note(record) || record.scope != scope_of(record.berths, keys, directory)) return std::nullopt;
  Note note;
  note.shared = (record.flags & shared_flag) != 0;
  note.share_with_any = (record.flags & share_with_any_flag) != 0;
  note.overdue = (record.flags & overdue_flag) != 0;
  for (unsigned slot = 0; slot < model::max_slots; ++slot) {
    const unsigned berth = record.berths[slot];
    if (berth == 0) continue;
    if (berth > 1 + model::share_berths || (berth > 1 && !note.shared) || keys[slot].empty()) return std::nullopt;
    note.berths[slot] = record.berths[slot];
  }
  note.id = text_of(record.id);
  for (char c : note.id)
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return std::nullopt;
  if ((record.flags & tells_nodes_flag) != 0) read_nodes(record, note);
  else note.command = text_of(record.command);
  note.process.pid = record.pid;
  note.process.pid_namespace = record.pid_namespace;
  note.process.start = record.start;
  std::memcpy(note.process.boot.data(), record.boot, sizeof record.boot);
  note.since = from_ms(record.since_ms);
  if (record.until_ms != 0) note.until = from_ms(record.until_ms);
  note.memory_mib = record.memory_mib;
  return note;
}

QueueHeader fresh_queue_header() {
  QueueHeader header{};
  header.magic = queue_magic;
  return header;
}

QueueHeader header_of_own(std::uint64_t directory) {
  QueueHeader header{};
  header.magic = own_magic;
  header.directory = directory;
  return header;
}

bool is_header_of_own(const QueueHeader& header, std::uint64_t directory) {
  return header.magic == own_magic && header.directory == directory;
}

QueueHeader sanitised(QueueHeader header) {
  if (header.magic != queue_magic || header.used > most_tickets) {
    header = fresh_queue_header();
    header.used = most_tickets;
  }
  return header;
}

bool is_key(std::string_view text) {
  if (text.empty() || text.size() > 120 || text.front() == '.') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == ':' || c == '-';
  });
}

SlotKeys parse_devices(std::string_view text) {
  SlotKeys keys;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    std::size_t space = line.find(' ');
    if (space == 0 || space > 3 || space == std::string_view::npos) continue;
    unsigned slot = 0;
    bool number = true;
    for (char c : line.substr(0, space)) {
      number = number && c >= '0' && c <= '9';
      slot = slot * 10 + static_cast<unsigned>(c - '0');
    }
    std::string_view key = line.substr(space + 1);
    if (!number || slot >= model::max_slots || !is_key(key) || !keys[slot].empty()) continue;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys[slot] = key;
  }
  return keys;
}

SlotInodes parse_device_nodes(std::string_view text) {
  SlotInodes nodes{};
  for (std::string_view line : split_lines(text)) {
    const std::vector<std::string_view> words = split(line, ' ');
    if (words.size() != 3 || words[0] != "node") continue;
    const auto slot = parse_u64(words[1]), inode = parse_u64(words[2]);
    if (slot && *slot < nodes.size() && inode) nodes[*slot] = *inode;
  }
  return nodes;
}

std::string format_devices(const SlotKeys& keys, const SlotInodes& nodes) {
  std::string text;
  for (std::size_t slot = 0; slot < keys.size(); ++slot)
    if (!keys[slot].empty()) text += std::to_string(slot) + " " + keys[slot] + "\n";
  for (std::size_t slot = 0; slot < keys.size(); ++slot)
    if (!keys[slot].empty() && nodes[slot] != 0) text += fmt::format("node {} {}\n", slot, nodes[slot]);
  return text;
}

std::string* free_slot(SlotKeys& keys) {
  auto found = std::find(keys.begin(), keys.end(), "");
  return found == keys.end() ? nullptr : &*found;
}

std::string gpu_node(std::string_view key) { return "gpu." + std::string(key); }
std::string share_node(std::string_view key, unsigned berth) {
  return "share." + std::string(key) + "." + std::to_string(berth);
}

std::vector<std::string> nodes_of(const std::string& unit) {
  std::vector<std::string> names{gpu_node(unit)};
  for (unsigned berth = 0; berth < model::share_berths; ++berth) names.push_back(share_node(unit, berth));
  return names;
}

std::string turn_node(unsigned index) { return "turn." + std::to_string(index); }

}  // namespace thole::host
