// The shared files of a state directory: `queue`, `devices`, and a note as a stranger may leave them. The first byte chooses
// the file. A record that begins with an even byte is taken as it is, one that begins with an odd byte is made valid from its
// bytes: so mutations get behind the check sums.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/fd.hpp"
#include "fuzz.hpp"
#include "host/claims/queue_file.hpp"
#include "model/json.hpp"

using namespace thole;
using namespace thole::host;

namespace {

template <class Record, class Make>
std::string records(std::string_view bytes, Make&& make) {
  std::string file;
  for (; bytes.size() >= 2; bytes.remove_prefix(std::min(bytes.size(), sizeof(Record)))) {
    Record record{};
    std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof record));
    if (bytes[0] % 2 != 0) record = make(record);
    file.append(reinterpret_cast<const char*>(&record), sizeof record);
  }
  return file;
}

Fd file_of(std::string_view bytes) {
  Fd fd(::memfd_create("records", MFD_CLOEXEC));
  fuzz::check(fd && write_all(fd.get(), bytes), "a file in memory");
  return fd;
}

void try_queue(std::string_view bytes) {
  std::string tickets = records<TicketRecord>(bytes, [](TicketRecord raw) {
    WrittenTicket ticket;
    ticket.view.number = raw.number % boot_clock_us();
    ticket.view.eligible = model::SlotSet(raw.eligible[0]) << (raw.eligible[1] % 128);
    ticket.view.count = raw.count;
    ticket.view.memory_mib = raw.memory_mib;
    ticket.view.time = Seconds(raw.time_s);
    ticket.view.since = WallTime(Seconds(raw.since_s));
    ticket.pid = raw.pid;
    return encode(ticket);
  });
  QueueHeader header = fresh_queue_header();
  header.used = static_cast<std::uint32_t>(std::min<std::size_t>(tickets.size() / sizeof(TicketRecord), most_tickets));
  bool own_header = !bytes.empty() && bytes[0] % 3 != 0;
  std::string file = (own_header ? std::string(reinterpret_cast<const char*>(&header), sizeof header) : "") + tickets;
  Fd fd = file_of(file);
  QueueFile queue(fd.get());
  queue.read();
  std::uint64_t last = 0;
  for (const WrittenTicket& ticket : queue.tickets()) {
    fuzz::check(ticket.view.number >= last && ticket.view.number <= boot_clock_us(), "tickets come in order of arrival");
    last = ticket.view.number;
    fuzz::check(ticket.index < most_tickets && ticket.view.eligible.any(), "a ticket has a record and wants something");
    fuzz::check(ticket.view.count >= 1 && ticket.view.count <= model::max_slots, "its count is one of slots");
    format_iso(ticket.view.since);
    if (ticket.view.time) format_duration(*ticket.view.time);
  }
  fuzz::check(queue.next_number() > last, "the next number is a new one");
  const std::vector<unsigned> empty = queue.empty_records();
  if (empty.empty()) return;
  WrittenTicket mine;
  mine.view.number = queue.next_number();
  mine.view.eligible.set(3);
  mine.view.count = 1;
  mine.index = empty.front();
  fuzz::check(queue.write(mine), "a ticket can be written");
  QueueFile again(fd.get());
  again.read();
  fuzz::check(
      std::ranges::any_of(again.tickets(), [&](const WrittenTicket& ticket) {
        return ticket.view.number == mine.view.number && ticket.index == mine.index;
      }),
      "and is found again whatever lies around it");
}

void try_notes(std::string_view bytes) {
  const SlotKeys keys{"GPU-8876fa66-9d31-921c-76da-21233aad9b1a", "GPU-1"};
  std::string notes = records<NoteRecord>(bytes, [&](NoteRecord raw) {
    Note note;
    note.id.assign(raw.id, ::strnlen(raw.id, sizeof raw.id));
    note.command.assign(raw.command, ::strnlen(raw.command, sizeof raw.command));
    note.since = WallTime(Millis(raw.since_ms));
    if (raw.until_ms != 0) note.until = WallTime(Millis(raw.until_ms));
    note.memory_mib = raw.memory_mib;
    note.shared = raw.berths[0] % 2 != 0;
    std::copy(std::begin(raw.berths), std::end(raw.berths), note.berths.begin());
    return encode(note, keys, 1);
  });
  for (std::size_t at = 0; at + sizeof(NoteRecord) <= notes.size(); at += sizeof(NoteRecord)) {
    NoteRecord record;
    std::memcpy(&record, notes.data() + at, sizeof record);
    auto note = decode(record, keys, 1);
    if (!note) continue;
    for (unsigned slot = 0; slot < model::max_slots; ++slot)
      for (unsigned berth = 0; berth <= model::share_berths; ++berth)
        fuzz::check(!note->names(slot, berth) || (!keys[slot].empty() && note->shared == (berth != 0)),
                    "it names slots there are, and only sharers have berths");
    fuzz::check(note->id.size() <= 16 && note->id.find_first_not_of("0123456789abcdef") == std::string::npos,
                "an id is hexadecimal");
    model::Holding holding;
    holding.since = note->since;
    holding.until = note->until;
    holding.command = note->command;
    model::dump(model::to_json(holding));
  }
}

void try_devices(std::string_view bytes) {
  SlotKeys keys = parse_devices(bytes);
  for (const std::string& key : keys) fuzz::check(key.empty() || is_key(key), "a key can name a node");
  fuzz::check(parse_devices(format_devices(keys)) == keys, "devices survive being written");
}

}  // namespace

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.byte() % 3) {
    case 0: try_queue(input.rest()); break;
    case 1: try_notes(input.rest()); break;
    case 2: try_devices(input.rest()); break;
  }
  return 0;
}
