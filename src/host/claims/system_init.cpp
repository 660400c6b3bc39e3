#include "host/claims/system_init.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <ranges>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "host/claims/announced.hpp"
#include "host/claims/fallback_claims.hpp"
#include "host/claims/gone_units.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/lost_locks.hpp"
#include "host/claims/membership.hpp"
#include "host/claims/node_handle.hpp"
#include "host/claims/notes.hpp"
#include "host/claims/own_tmpfs.hpp"
#include "host/claims/queue_file.hpp"
#include "host/claims/space.hpp"
#include "host/claims/tidy_notes.hpp"
#include "host/claims/who_file.hpp"
#include "host/entries.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

Fd locked(const StatePaths& paths) {
  const std::string path = lock_of(paths);
  Fd lock = create_at(AT_FDCWD, path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat found;
  if (!lock || ::fstat(lock.get(), &found) != 0)
    throw Error(ErrorCode::unavailable, "cannot open").about(path).because(errno).hint("sudo thole init");
  if (!S_ISREG(found.st_mode) || found.st_uid != paths.system_owner)
    throw Error(ErrorCode::unavailable, "not a file of root's").about(path).hint("delete it");
  if (::fchmod(lock.get(), 0600) != 0)
    throw Error(ErrorCode::unavailable, "cannot set the access of").about(path).because(errno);
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw Error(ErrorCode::unavailable, "cannot lock").about(path).because(errno);
  return lock;
}

StateDir made(const StatePaths& paths, const InitWish& wish, InitReport& report) {
  StateDir dir = make_system_dir(paths);
  if (!wish.own_tmpfs) return dir;
  if (std::string caution = mount_own_tmpfs(paths.system); !caution.empty()) report.cautions.push_back(std::move(caution));
  return make_system_dir(paths);
}

std::string key_of_gpu_node(std::string_view name) { return name.starts_with("gpu.") ? std::string(name.substr(4)) : ""; }

std::uint64_t number_of_filesystem(int fd) {
  struct statfs told;
  if (::fstatfs(fd, &told) != 0) throw Error(ErrorCode::unavailable, "cannot tell the file system").because(errno);
  std::uint64_t number = 0;
  std::memcpy(&number, &told.f_fsid, std::min(sizeof number, sizeof told.f_fsid));
  return number;
}

// With the size of their records.
constexpr std::pair<const char*, off_t> shared_files[] = {{"alloc", 0}, {"who", who_size}, {"queue", queue_size}};

}  // namespace

SystemInit::SystemInit(const StatePaths& paths, const std::vector<std::string>& units, const InitWish& wish)
    : paths_(paths), units_(units), wish_(wish), lock_(locked(paths)), before_(read_init_record(lock_.get())),
      dir_(made(paths, wish, report_)),
      maker_(dir_.fd.get(), dir_.path, access_wanted()), take_back_(dir_.fd.get(), maker_, wish.take_back, wish.before) {
  report_.directory = dir_.path;
  if (is_complete(paths)) ::unlinkat(dir_.fd.get(), completing_file, 0);   // of one that was killed
  // A file system that is gone has given its device's number away: nobody has anything of it open any more.
  for (std::vector<RecordedNode>* nodes : {&before_.nodes, &before_.taken})
    std::erase_if(*nodes, [this](const RecordedNode& node) {
      return node.device == dir_.dev && node.filesystem != number_of_filesystem(dir_.fd.get());
    });
  leave_kept(before_.taken);
  report_.group = gate();
}

// Without a word about it: as it is now, by the first that has its access. An init that was killed may have left others.
Access SystemInit::access_wanted() const {
  if (wish_.group) return {0660, wish_.group};
  for (const char* name : {"alloc", "who", "queue"}) {
    struct stat found;
    const bool seen = ::fstatat(dir_.fd.get(), name, &found, AT_SYMLINK_NOFOLLOW) == 0;
    if (!seen) refuse_unseen(dir_.path + "/" + name, errno);   // or it would be opened to everybody
    const bool is_finished = seen && S_ISREG(found.st_mode) && (found.st_mode & 0060) == 0060;
    if (!is_finished) continue;
    if (wish_.everybody || (found.st_mode & 0006) != 0) break;
    return {0660, found.st_gid};
  }
  return {0666, ::getegid()};
}

InitReport SystemInit::run() {
  if (auto text = read_file(dir_.path + "/devices", 32768)) keys_ = parse_devices(*text);
  else refuse_unseen(dir_.path + "/devices", errno);
  make_notes();   // first: it may make the space for the rest
  for (const auto& [name, size] : shared_files) {
    Allowance attributes(for_attributes);
    if (!cut_back(name, size, attributes)) renew_file(name, size, /*anyhow=*/true);
  }
  if (is_nearly_full(dir_.path)) name_fillers();
  make_room_for_root(dir_.path);
  never_use_a_number_again(dir_.path);
  make_files();
  leave_noted(before_.taken);
  for (unsigned index = 0; index < most_tickets; ++index) renew(turn_node(index));
  forget_vanished();
  add_units();
  name_outsiders();
  if (is_complete(paths_)) write_record();   // before anybody can claim what is new
  if (keys_changed_ || !is_there("devices")) write_devices();
  Fd who = maker_.make_file("who");
  if (!reserve_who(who.get())) report_.cautions.push_back(dir_.path + " is full; every look tries every GPU");
  if (is_complete(paths_)) renew_file("queue", queue_size);
  else complete();
  report_.old_access = static_cast<unsigned>(held_.size());
  const auto can_be_claimed = [this](const std::string& key) {
    return !key.empty() && !vanished(key) && is_there(gpu_node(key));
  };
  report_.slots = static_cast<unsigned>(std::ranges::count_if(keys_, can_be_claimed));
  return report_;
}

void SystemInit::name_fillers() {
  const std::vector<std::string> fillers = open_though_deleted(dir_.dev, dir_.owner, 2 * queue_size);
  for (const std::string& filler : fillers) report_.cautions.push_back(dir_.path + " is nearly full; " + filler);
  if (!fillers.empty()) return;
  if (std::string unseen = filled_unseen(dir_.path); !unseen.empty()) report_.cautions.push_back(std::move(unseen));
}

void SystemInit::renew(const std::string& name) {
  if (!maker_.renew_fifo(name)) held_.push_back(name);
}

// Who has a node that could not be made anew, and is no member of the group, has it since before there was a group, or locked
// it later through what he had open then. Which of these, nobody can tell for certain, and a node made anew under a holder
// would be a second owner: nothing is taken.
void SystemInit::name_outsiders() {
  if (held_.empty() || !gate()) return;
  const KernelLocks locks = kernel_locks(for_init_to_tell);
  std::map<FileNumber, std::string> nodes;
  std::set<FileNumber> numbers;
  for (const std::string& name : held_) {
    struct stat about;
    if (::fstatat(dir_.fd.get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
    nodes.emplace(FileNumber(about.st_dev, about.st_ino), name);
    numbers.emplace(about.st_dev, about.st_ino);
  }
  Allowance allowance(for_init_to_tell);
  std::map<FileNumber, std::vector<pid_t>> keepers = keepers_by_descriptors(numbers, allowance);
  std::set<FileNumber> seen;
  for (const auto& [node, pids] : keepers) seen.insert(node);
  for (const KernelLock& lock : locks.flocks) {   // whose descriptor is not seen is named by the kernel alone
    const FileNumber node(lock.dev, lock.ino);
    if (nodes.contains(node) && !seen.contains(node)) keepers[node].push_back(lock.pid);
  }
  std::map<pid_t, std::string> outsiders;   // with one of their nodes
  for (const auto& [node, pids] : keepers)
    for (pid_t pid : pids)
      if (user_ids_of(pid) && !process_is_member(pid, *gate())) outsiders.try_emplace(pid, nodes.at(node));
  for (const auto& [pid, name] : outsiders)
    report_.cautions.push_back(describe_process(pid) + ", who is no member, has " + name +
                               " by what was open before there was a group, and keeps it until that process ends");
}

void SystemInit::make_files() {
  renew_file("alloc", 0);
  free_alloc();
  renew_file("who", who_size);
}

// Whose lock no process has decides nothing by it, and nobody else is inside of it: the one that is made anew is nobody's, and
// all others meet in it. One that a process has is left to it, however long: it may be stopped in the middle of a decision.
void SystemInit::free_alloc() {
  const Fd alloc = open_at(dir_.fd.get(), "alloc", O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!alloc || !stays_locked(alloc.get()) || !kept_in_no_process(alloc.get())) return;
  const std::string keeper = describe_keeper(alloc.get());
  maker_.replace_file("alloc", [](int) {});
  report_.cautions.push_back(fmt::format("{}/alloc is made anew: {}", dir_.path, keeper));
}

// A shared file is as long as its records, whatever strangers have written behind them.
bool SystemInit::cut_back(const std::string& name, off_t size, Allowance& attributes) const {
  Fd fd = open_at(dir_.fd.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  struct stat found;
  if (!fd || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return true;
  if (found.st_size > size) (void)!::ftruncate(fd.get(), size);
  return clear_attributes(fd.get(), attributes);
}

// Files are not locked for long, so there is nothing to wait for; whoever has the old one open sees that it has no name.
void SystemInit::renew_file(const std::string& name, off_t size, bool anyhow) {
  Fd old = maker_.make_file(name);
  if (!maker_.differs(name) && !anyhow) return;
  std::string content(static_cast<std::size_t>(size), '\0');
  const ssize_t read = old ? ::pread(old.get(), content.data(), content.size(), 0) : 0;
  content.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  maker_.replace_file(name, [&](int fd) { (void)!write_all(fd, content); });
}

// Users put their own files there; nobody else deletes another's.
void SystemInit::make_notes() {
  if (!make_directory_at(dir_.fd.get(), "notes", 0700) && errno != EEXIST) maker_.failed("cannot make", "notes");
  Fd notes = open_at(dir_.fd.get(), "notes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  const mode_t mode = gate() ? 01770 : 01777;
  if (!notes || (maker_.access().group && ::fchown(notes.get(), static_cast<uid_t>(-1), *maker_.access().group) != 0) ||
      ::fchmod(notes.get(), mode) != 0)
    maker_.failed("cannot set the access of", "notes");
  const Rights rights = is_alone_in_its_file_system(dir_.path) ? Rights::of_root : Rights::of_the_owner;
  const TidyWish tidy{dir_.path + "/notes", gate(), rights,
                      is_nearly_full(dir_.path)};
  for (std::string& caution : tidy_notes(notes.get(), {dir_.fd.get(), number_of(dir_), keys_}, tidy))
    report_.cautions.push_back(std::move(caution));
}

bool SystemInit::is_there(const std::string& name) const {
  if (::faccessat(dir_.fd.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return true;
  refuse_unseen(dir_.path + "/" + name, errno);
  return false;
}

bool SystemInit::vanished(const std::string& key) const { return std::find(units_.begin(), units_.end(), key) == units_.end(); }

// Those that have a slot, and those whose slots were needed for others: their nodes are left.
std::set<std::string> SystemInit::vanished_units() const {
  std::set<std::string> gone;
  for (const std::string& key : keys_)
    if (!key.empty() && vanished(key)) gone.insert(key);
  for (const std::string& name : entries_in(dir_.fd.get()))
    if (std::string key = key_of_gpu_node(name); is_key(key) && vanished(key)) gone.insert(std::move(key));
  return gone;
}

// One whose claim goes on stays, by others of its units, or by the lock that root has taken back: without its slot nobody
// understands that claim's note, nor sees by it that it was taken back.
void SystemInit::forget_vanished() {
  if (!wish_.untold.empty()) return;
  std::set<unsigned> claimed;
  if (std::ranges::any_of(keys_, [this](const std::string& key) { return !key.empty() && vanished(key); }))
    claimed = claimed_slots(notes().get(), {dir_.fd.get(), number_of(dir_), keys_}, Counted::all_of_its_claim);
  for (const std::string& key : vanished_units()) {
    const auto slot = std::find(keys_.begin(), keys_.end(), key);
    if (claimed.contains(static_cast<unsigned>(slot - keys_.begin())) || has_taken(key)) continue;
    const std::string node = gpu_node(key);
    Fd lock = open_at(dir_.fd.get(), node.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW);
    if (!lock && errno != ENOENT) continue;   // whether it is in use cannot be told
    const auto deleted = std::ranges::find(before_.nodes, node, &RecordedNode::name);
    if (!lock && deleted != before_.nodes.end() && is_locked(*deleted).value_or(false)) continue;
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use although the driver no longer names it
    if (lock) {
      maker_.give_up(lock.get(), node);
      std::erase_if(before_.nodes, [&](const RecordedNode& one) { return one.name == node; });
    }
    for (unsigned berth = 0; berth < model::share_berths; ++berth)
      ::unlinkat(dir_.fd.get(), share_node(key, berth).c_str(), 0);
    if (slot != keys_.end()) slot->clear(), keys_changed_ = true;
    ++report_.freed;
  }
}

// A node that has lost its name; nothing where that cannot be told. What init itself has given up is nobody's.
std::optional<bool> SystemInit::is_locked(const RecordedNode& node) const {
  const Fd opened = open_recorded(dir_.fd.get(), dir_.dev, node);
  if (!opened) return errno == ESTALE ? std::optional(false) : std::nullopt;
  struct stat found;
  if (::fstat(opened.get(), &found) != 0) return std::nullopt;
  return (found.st_mode & given_up) == 0 && ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0;
}

// As it is now; nothing where there is none.
std::optional<RecordedNode> SystemInit::recorded(const std::string& name) const {
  struct stat node;
  if (::fstatat(dir_.fd.get(), name.c_str(), &node, AT_SYMLINK_NOFOLLOW) == 0)
    return RecordedNode{name, number_of_filesystem(dir_.fd.get()), node.st_dev, node.st_ino, handle_of(dir_.fd.get(), name)};
  refuse_unseen(dir_.path + "/" + name, errno);
  return std::nullopt;
}

// Before it is done, or a killed init would leave no word of it.
void SystemInit::note_taking() {
  if (wish_.take_back.empty()) return;
  std::set<std::string> names;
  for (const ToTakeBack& asked : wish_.take_back) {
    names.insert(gpu_node(asked.unit));
    if (!asked.whole.empty()) names.insert(gpu_node(asked.whole));
  }
  for (const std::string& name : names)
    if (const auto node = recorded(name)) before_.taken.push_back(*node);
  if (is_complete(paths_)) write_record();
}

// Of what init has given up, what somebody has still, or may have.
void SystemInit::leave_kept(std::vector<RecordedNode>& taken) const {
  std::optional<KernelLocks> listed;
  std::erase_if(taken, [&](const RecordedNode& node) {
    const Fd opened = open_recorded(dir_.fd.get(), dir_.dev, node);
    if (opened) return ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
    if (errno == ESTALE) return true;
    if (!listed) listed = kernel_locks(for_init_to_tell);
    const auto is_its = [&](const KernelLock& lock) { return lock.dev == node.device && lock.ino == node.inode; };
    return listed->whole && std::ranges::none_of(listed->flocks, is_its);
  });
}

// Of those, what a claim's note speaks of: for that alone the GPU's place is kept. Who has locked an old file and claimed
// nothing keeps none.
void SystemInit::leave_noted(std::vector<RecordedNode>& taken) const {
  if (taken.empty()) return;
  NoteBook book(notes(), number_of(dir_));
  book.collect();
  book.read(keys_);
  if (!book.unread().empty()) return;            // they may speak of any
  std::erase_if(taken, [&](const RecordedNode& node) {
    const auto slot = static_cast<unsigned>(std::ranges::find(keys_, key_of_gpu_node(node.name)) - keys_.begin());
    return slot == keys_.size() || std::ranges::none_of(book.live(), [&](const Note& note) {
             return note.names(slot) && (note.nodes[slot].inode == 0 || note.nodes[slot].inode == node.inode);
           });
  });
}

// Who has old files of GPUs that were taken back, for where these GPUs' places are wanted.
std::string SystemInit::keepers_of_taken() const {
  std::set<std::string> keepers;
  for (const RecordedNode& node : before_.taken)
    if (const Fd opened = open_recorded(dir_.fd.get(), dir_.dev, node); opened && keepers.size() < most_listed)
      keepers.insert(describe_keeper(opened.get()));
  const std::vector<std::string> names(keepers.begin(), keepers.end());
  return names.empty() ? "" : "; old files of some, which were taken back, are kept: " + join(names, "; ");
}

// Whether it was taken back from somebody who has it still.
bool SystemInit::has_taken(const std::string& key) const {
  return std::ranges::find(before_.taken, gpu_node(key), &RecordedNode::name) != before_.taken.end();
}

// A unit whose lock was deleted under a living claim is left out until that claim has ended: without a node nobody can claim it
// meanwhile. It keeps its slot, or its holder could neither release it nor claim within it.
void SystemInit::add_units() {
  note_taking();
  std::vector<RecordedNode> missing = before_.nodes;
  std::erase_if(missing, [this](const RecordedNode& node) { return is_there(node.name); });
  std::vector<NodeLock> lost;
  if (!missing.empty())
    lost = node_locks(missing, paths_.system_owner, kernel_locks(for_init_to_take),
                      [this](const RecordedNode& node) { return is_locked(node); });
  for (const std::string& key : units_) {
    if (!is_key(key)) {
      report_.cautions.push_back(printable(key, 64) + " is left out: this is not the name of a unit");
      continue;
    }
    const std::string node = gpu_node(key);
    const ToTakeBack* const taken = take_back_.asked(key);
    const auto holder = std::find_if(lost.begin(), lost.end(), [&](const NodeLock& lock) { return lock.node == node; });
    auto slot = std::find(keys_.begin(), keys_.end(), key);
    std::string who;
    if (holder != lost.end()) who = holder->pid > 0 ? describe_process(holder->pid) : "somebody, as far as can be told,";
    if (!who.empty() && !taken) {
      const std::string cure = holder->pid > 0 ? "" : " (if nobody does: sudo thole init --take-back " + key + ")";
      report_.cautions.push_back(fmt::format("{} is left out: its lock was deleted, and {} has it still{}", key, who, cure));
      continue;
    }
    if (slot == keys_.end()) {
      if (wish_.untold.contains(key) && !vanished_units().empty()) {
        report_.cautions.push_back(key + " is left out: the driver does not tell whether it is partitioned, and units are "
                                         "known here that may be parts of it: sudo thole init when it does");
        continue;
      }
      std::string* free = slot_for_another();
      if (!free) {
        const std::string why = (claimed_slots_ ? ", and those that are gone are claimed" : "") + keepers_of_taken();
        report_.cautions.push_back(
            fmt::format("{} is left out: {} knows {} units already{}", key, dir_.path, model::max_slots, why));
        continue;
      }
      slot = keys_.begin() + (free - keys_.data());
      keys_changed_ = true;
    }
    if (!taken)
      for (const std::string& name : nodes_of(key)) renew(name);
    else if (!take_back_.of(*taken, {gate(), who, inside_claims_of({key, taken->whole}), wish_.force}, report_.cautions))
      ++report_.not_taken_back;
    else if (!who.empty())
      for (const RecordedNode& one : missing)
        if (Fd of_his = one.name == node ? open_recorded(dir_.fd.get(), dir_.dev, one) : Fd()) NodeMaker::give_up(of_his.get());
    if (taken)
      for (const std::string& name : take_back_.spared_of(key)) renew(name);
    *slot = key;
  }
  for (const std::string& key : vanished_units())   // which are held; one that was deleted under a claim has none
    if (is_there(gpu_node(key)))
      for (const std::string& name : nodes_of(key)) renew(name);
  std::ranges::move(told_of_gone(dir_.fd.get(), vanished_units(), wish_.partitioned), std::back_inserter(report_.cautions));
}

Fd SystemInit::notes() const { return open_at(dir_.fd.get(), "notes", O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

// A unit that has vanished and is merely locked needs none: its node is enough, should it come back. A claim does: without it
// nobody understands what its holder notes, and he could neither release it nor claim within it.
std::string* SystemInit::slot_for_another() {
  if (std::string* free = free_slot(keys_)) return free;
  const auto gone = [this](const std::string& key) { return vanished(key); };
  if (std::ranges::none_of(keys_, gone)) return nullptr;
  if (!claimed_slots_)
    claimed_slots_ = claimed_slots(notes().get(), {dir_.fd.get(), number_of(dir_), keys_}, Counted::what_is_held);
  for (unsigned slot = 0; slot < keys_.size(); ++slot)
    if (gone(keys_[slot]) && !claimed_slots_->contains(slot) && !has_taken(keys_[slot])) return &keys_[slot];
  return nullptr;
}

// By the notes of who has claimed one of these units, what was started in his claims: his own processes, to be named; as many
// as there is time for, since anybody can note any number of claims.
std::vector<pid_t> SystemInit::inside_claims_of(const std::set<std::string>& units) const {
  std::vector<pid_t> found;
  Allowance allowance(for_init_to_tell);
  const Stop stop = [&] { return allowance.over(); };
  NoteBook book(notes(), number_of(dir_));
  book.collect();
  book.read(keys_);
  for (const Note& note : book.live()) {
    if (stop()) break;
    const auto is_meant = [&](unsigned slot) { return note.names(slot) && units.contains(keys_[slot]); };
    if (std::ranges::none_of(std::views::iota(0u, model::max_slots), is_meant)) continue;
    for (const ProcessStat& process : started_in_claim(note.id, note.process.uid, note.process.pid, stop))
      found.push_back(process.pid);
  }
  return found;
}

void SystemInit::write_devices() {
  const std::string text = format_devices(keys_);
  maker_.replace_file("devices", [&](int fd) { if (!write_all(fd, text)) maker_.failed("cannot write", "devices"); }, 0644);
}

void SystemInit::complete() {
  const Fd completing = announce(dir_.fd.get(), maker_, completing_file);
  std::string directory;
  const std::string claim = claimed_in_fallback(paths_, units_, directory);
  if (!claim.empty() && !wish_.force) {
    ::unlinkat(dir_.fd.get(), completing_file, 0);
    throw Error(ErrorCode::unavailable, "a GPU is claimed in the directory without root's protection; " + claim)
        .about(directory)
        .hint("wait until it has ended, or: sudo thole init --force");
  }
  maker_.replace_file("queue", [this](int fd) {
    if (!make_queue(fd)) report_.cautions.push_back(dir_.path + " is full; waiting is without order until there is space");
  });
  write_record();   // after it: a directory that was complete and is not keeps everybody from claiming
  ::unlinkat(dir_.fd.get(), completing_file, 0);
  if (!claim.empty()) report_.cautions.push_back(directory + " is given up although a GPU is claimed in it; " + claim);
}

// It also says that the directory was complete. What somebody else has deleted stays in it, for its holder may live.
void SystemInit::write_record() {
  constexpr std::size_t most_missing = 1024;
  InitRecord now;
  std::copy_if(before_.nodes.begin(), before_.nodes.end(), std::back_inserter(now.nodes),
               [this](const RecordedNode& node) { return !is_there(node.name); });
  now.taken = before_.taken;
  leave_kept(now.taken);
  for (std::vector<RecordedNode>* nodes : {&now.nodes, &now.taken})
    if (nodes->size() > most_missing) nodes->erase(nodes->begin(), nodes->end() - most_missing);
  for (const std::string& name : entries_in(dir_.fd.get())) {
    if (key_of_gpu_node(name).empty()) continue;
    if (auto node = recorded(name)) now.nodes.push_back(std::move(*node));
  }
  if (!write_init_record(lock_.get(), now))
    report_.cautions.push_back(lock_of(paths_) + " cannot be written: a deleted directory would not be noticed");
}

}  // namespace thole::host
