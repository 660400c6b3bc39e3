#include "host/claims/fifo_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <thread>

#include "base/error.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/init.hpp"
#include "host/claims/inner.hpp"
#include "host/claims/space.hpp"

namespace thole::host {
namespace {

constexpr std::size_t most_heard = 4 * most_tickets;   // of who stood in line and is written over; more costs those theirs

}  // namespace

FifoStore::FifoStore(ClaimStoreOptions options, StateDir directory, bool look_only)
    : options_(std::move(options)), look_only_(look_only), me_(own_identity()), adopted_by_(::getpid()),
      looks_(options_.look_patience), amendments_(options_.amend_patience) {
  open_directory(std::move(directory));
}

// Opened as a whole, or not at all: what cannot be opened leaves what was open before, in which every use says so again.
void FifoStore::open_directory(StateDir directory) {
  ClaimDirectory nodes(std::move(directory), options_.units);
  Fd notes = open_notes(nodes.state());
  OwnNotes own_notes(notes.get(), me_.uid, number_of(nodes.state()));
  OwnTickets own_tickets(notes.get(), me_.uid, number_of(nodes.state()));
  queue_ = QueueFile(nodes.queue());
  nodes_ = std::move(nodes);
  own_notes_ = std::move(own_notes);
  own_tickets_ = std::move(own_tickets);
  notes_ = std::move(notes);
}

std::unique_ptr<port::Ticket> FifoStore::enter(port::Entry entry) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  look_only_ = false;  // who claims makes what is missing, where the directory is his
  auto unknown = [&](const std::string& key) { return !nodes_->slot_of(key); };
  if (std::any_of(entry.eligible.begin(), entry.eligible.end(), unknown)) nodes_->refresh_slots();
  if (std::any_of(entry.eligible.begin(), entry.eligible.end(), unknown)) {
    for (const std::string& key : entry.eligible)
      if (unknown(key)) options_.units.push_back(key);
    open_again();
    slots_of(entry);
    for (const std::string& key : entry.eligible)
      if (unknown(key)) caution(key + " cannot be claimed before: " + init_hint());
  }
  return std::make_unique<FifoTicket>(*this, std::move(entry));
}

model::SlotSet FifoStore::slots_of(const port::Entry& entry) const {
  model::SlotSet slots;
  std::string unknown;
  for (const std::string& key : entry.eligible) {
    if (auto slot = nodes_->slot_of(key)) slots.set(*slot);
    else unknown = key;
  }
  if (slots.count() < entry.count && !unknown.empty())
    throw Error(ErrorCode::unavailable, "the state directory " + nodes_->path() + " does not know this unit")
        .about(unknown)
        .hint(init_hint());
  return slots;
}

// Who can add a unit, and how.
std::string FifoStore::init_hint() const {
  return nodes_->state().kind == DirKind::named ? "its owner adds it: thole --state-dir " + nodes_->path() + " init"
                                                : "sudo thole init";
}

void FifoStore::open_again() {
  if (look_only_) {
    auto directory = find_state_dir(options_.location);
    if (!directory) throw Error(ErrorCode::unavailable, "the state directory was deleted").about(nodes_->path());
    directory->mine = false;
    open_directory(std::move(*directory));
  } else if (!options_.outer.empty()) {
    InnerDirectory own = open_inner_directory(options_.location, options_.outer);
    open_directory(std::move(own.directory));
  } else {
    open_directory(open_state_dir(options_.location));
  }
}

bool FifoStore::reopen() {
  std::lock_guard lock(threads_);
  const ino_t ino = nodes_->state().ino;
  const dev_t dev = nodes_->state().dev;
  open_again();
  return nodes_->state().ino != ino || nodes_->state().dev != dev;
}

void FifoStore::adopt_after_fork() {
  const pid_t me = ::getpid();
  for (pid_t whose = adopted_by_; whose != me; whose = adopted_by_) {
    // One thread of the child does it, marked by -me; another process's mark is of a thread that is not here.
    if (whose == -me) std::this_thread::yield();
    else if (adopted_by_.compare_exchange_strong(whose, -me)) adopt();
  }
}

void FifoStore::adopt() {
  new (&threads_) std::mutex;  // another thread of the parent may have had one
  new (&cautions_mutex_) std::mutex;
  try {
    me_ = own_identity();
    open_again();
  } catch (...) {
    adopted_by_ = 0;           // the next one tries again
    throw;
  }
  adopted_by_ = ::getpid();
}

bool FifoStore::caution(const std::string& text) {
  std::lock_guard lock(cautions_mutex_);
  if (std::find(cautions_.begin(), cautions_.end(), text) != cautions_.end()) return false;
  cautions_.push_back(text);
  return true;
}

port::StoreAbout FifoStore::about() const {
  const_cast<FifoStore*>(this)->adopt_after_fork();   // the parent's mutex may be held by a thread that is not here
  std::lock_guard threads(threads_);
  static constexpr const char* kinds[] = {"system", "fallback", "explicit", "private"};
  port::StoreAbout about{nodes_->path(), kinds[static_cast<int>(nodes_->state().kind)], kept_by_, {}, nodes_->cautions()};
  if (nodes_->state().kind == DirKind::system)
    if (std::string full = nearly_full(nodes_->path()); !full.empty()) about.cautions.push_back(std::move(full));
  ClaimDirectory::Lost lost = nodes_->what_is_lost(options_.units);
  about.out_of_reach = std::move(lost.units);
  if (about.kept_by.empty()) about.kept_by = std::move(lost.why);
  std::lock_guard lock(cautions_mutex_);
  about.cautions.insert(about.cautions.end(), cautions_.begin(), cautions_.end());
  return about;
}

std::unique_ptr<port::ClaimStore> FifoStore::within(const std::string& claim_id) {
  ClaimStoreOptions inner = [this] {
    adopt_after_fork();
    std::lock_guard lock(threads_);
    return options_;
  }();
  inner.location = inner_location(inner, claim_id);
  inner.units.clear();  // those of the claim: each is added by the first who enters for it
  inner.outer = about().directory;
  sweep_inner_directories(inner, inner.outer, [this](const std::string& id) { return !own_claim(id).empty(); });
  try {
    InnerDirectory own = open_inner_directory(inner.location, inner.outer);
    return std::make_unique<FifoStore>(std::move(inner), std::move(own.directory), false);
  } catch (const Error&) {
    if (!own_claim(claim_id).empty()) throw;
    throw Error(ErrorCode::unavailable, "the claim around this one has ended").about(claim_id);
  }
}

Fd FifoStore::note(const Note& note, int above) {
  if (notes_)
    if (Fd live = own_notes_->put(note, nodes_->slots(), above)) return live;
  if (note.shared) return Fd();
  try {
    return note_in_own_directory(options_, nodes_->state(), note, nodes_->slots(), above);
  } catch (const Error&) {   // no such directory can be had: the caller says what that means
    return Fd();
  }
}

NoteBook FifoStore::book_of(int directory) const {
  Fd own(directory < 0 ? -1 : ::fcntl(directory, F_DUPFD_CLOEXEC, 3));
  if (directory >= 0 && !own) refuse_unseen(nodes_->path() + "/notes", errno);
  return {std::move(own), number_of(nodes_->state())};
}

NoteBook FifoStore::notes() {
  std::lock_guard lock(threads_);
  return book_of(notes_.get());
}

FifoStore::Words FifoStore::words() const {
  std::lock_guard lock(threads_);
  return {notes_ ? open_at(notes_.get(), ".", O_RDONLY | O_DIRECTORY) : Fd(), number_of(nodes_->state())};
}

std::vector<bool> FifoStore::vouched(const std::vector<WrittenTicket>& tickets) {
  const Words words = this->words();
  if (!has_words()) return std::vector<bool>(tickets.size(), true);
  return vouched_among(words.directory.get(), words.number, tickets);
}

std::vector<model::InLine> FifoStore::in_line(const model::SlotSet& units, const std::function<bool(uid_t)>& of) {
  const Words words = this->words();
  if (!words.directory) return {};
  return in_line_among(words.directory.get(), words.number, units, most_heard, of);
}

std::vector<model::InLine> FifoStore::said_in_line(const std::vector<std::string>& keys, const std::set<uid_t>& users) {
  model::SlotSet units;
  for (const std::string& key : keys)
    if (const auto slot = nodes_->slot_of(key)) units.set(*slot);
  return in_line(units, [&](uid_t uid) { return users.contains(uid); });
}

bool FifoStore::change_note(const std::string& id, const std::function<void(Note&)>& how) {
  if (notes_ && own_notes_->change(id, nodes_->slots(), how)) return true;
  const Fd own = find_own_directory_of(options_, id);
  return own && OwnNotes(own.get(), me_.uid, number_of(nodes_->state())).change(id, nodes_->slots(), how);
}

// Takes no lock, so that nobody who keeps the claims locked stops those who claim within their own.
std::vector<Note> FifoStore::own_notes(const std::string& id) {
  nodes_->refresh_slots();
  const auto notes_in = [&](NoteBook book) {
    book.collect(me_.uid);
    book.read(nodes_->slots());
    std::vector<Note> found;
    std::ranges::copy_if(book.live(), std::back_inserter(found),
                         [&](const Note& note) { return note.id == id && !note.overdue; });
    return found;
  };
  std::vector<Note> found;
  if (notes_) found = notes_in(book_of(notes_.get()));
  if (found.empty())
    if (Fd own = find_own_directory_of(options_, id)) found = notes_in(book_of(own.get()));
  return found;
}

std::vector<std::string> FifoStore::own_claim(const std::string& id) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  std::vector<std::string> keys;
  for (const Note& note : own_notes(id))
    for (unsigned slot = 0; slot < model::max_slots; ++slot)
      if (note.names(slot)) keys.push_back(nodes_->slots()[slot]);
  return keys;
}

// As paths: a reader or writer of a node would keep those who wait for it asleep.
SlotNodes FifoStore::open_units(const Note& note, std::array<Fd, model::max_slots>& units) {
  SlotNodes now{};
  for (unsigned slot = 0; slot < model::max_slots; ++slot) {
    if (!note.names(slot)) continue;
    units[slot] = nodes_->open_gpu(slot, O_PATH);
    if (units[slot]) now[slot] = node_number_of(units[slot].get());
    if (now[slot].inode == 0) refuse_unseen(nodes_->gpu_name(slot), errno);   // deleted: nobody has it anew
  }
  return now;
}

port::WatchedUnits FifoStore::watch(const std::string& id) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  port::WatchedUnits watched;
  for (const Note& note : own_notes(id)) {
    std::array<Fd, model::max_slots> units;
    for (const unsigned slot : note.exchanged(open_units(note, units))) watched.exchanged.push_back(nodes_->slots()[slot]);
    for (Fd& unit : units)
      if (unit) watched.files.push_back(std::move(unit));
  }
  return watched;
}

std::optional<std::uint64_t> FifoStore::own_share(const std::string& id) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  std::optional<std::uint64_t> least;
  for (const Note& note : own_notes(id))
    if (note.shared) least = std::min(least.value_or(note.memory_mib), note.memory_mib);
  return least;
}

Section::Section(FifoStore& store, AllocBudget& budget, const Said& stuck, std::span<const int> cancel)
    : threads_((store.adopt_after_fork(), store.threads())) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  for (;;) {
    const SteadyTime begin = now();
    try {
      alloc_.emplace(store.nodes().alloc(), store.nodes().path(), budget.left(begin), stuck, cancel);
      budget.spend(std::chrono::duration_cast<Millis>(now() - begin));
      kept_ = keep_from_sweeps(store.nodes().state());
      if (!store.nodes().replaced()) break;
      alloc_.reset();  // others meet in the new one already; every ticket is in the new queue too
    } catch (const AllocKept& held) {
      kept_ = keep_from_sweeps(store.nodes().state());
      if (!store.nodes().replaced()) {
        budget.give_up(now());
        why_ = held.what() + (": " + held.object());
        if (stuck) stuck(why_);        // it may be another one's doing by now
        break;
      }
    }
    store.open_again();
  }
  store.hook("locked");
}

std::unique_ptr<port::ClaimStore> open_claim_store(ClaimStoreOptions options) {
  const StatePaths& paths = options.location.paths;
  if (options.location.kind == StateLocation::Kind::common && ::geteuid() == paths.system_owner && !is_complete(paths)) {
    InitWish wish;
    wish.group = options.group;
    init_claims(options.location, options.units, wish);
  }
  StateDir directory = open_state_dir(options.location);
  return std::make_unique<FifoStore>(std::move(options), std::move(directory), false);
}

// Who finds none, and that none was lost, looks once more: another may have made it meanwhile, and claimed in it.
std::unique_ptr<port::ClaimStore> find_claim_store(ClaimStoreOptions options) {
  for (const bool first : {true, false}) {
    auto directory = find_state_dir(options.location);
    const bool complete = directory && ::faccessat(directory->fd.get(), "queue", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (directory && !complete) refuse_unseen(directory->path + "/queue", errno);
    if (complete) {
      directory->mine = false;
      return std::make_unique<FifoStore>(std::move(options), std::move(*directory), true);
    }
    if (first) refuse_if_lost(options.location);
  }
  return nullptr;
}

}  // namespace thole::host
