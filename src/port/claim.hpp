// A claim of ours, as the value that owns its units.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.hpp"

namespace thole::port {

// The locked descriptors of a claim: those of the units, and after them that of its note, which says that the claim lives. The
// note goes first at every end: it has the highest number, because a dying process's descriptors are closed from the highest
// down, and here it is the last, because they are closed from the last on. A note that outlived its claim would lend another's
// unit.
class ClaimLocks {
 public:
  ClaimLocks() = default;
  ClaimLocks(std::vector<Fd> locks) : locks_(std::move(locks)) {}   // of a claim that somebody else keeps
  ClaimLocks(ClaimLocks&& other) noexcept : locks_(std::move(other.locks_)), noted_(std::exchange(other.noted_, false)) {
    other.locks_.clear();
  }
  ClaimLocks& operator=(ClaimLocks&& other) noexcept {
    if (this == &other) return *this;
    clear();
    locks_ = std::move(other.locks_);
    other.locks_.clear();
    noted_ = std::exchange(other.noted_, false);
    return *this;
  }
  ~ClaimLocks() { clear(); }

  void push_back(Fd lock) { locks_.push_back(std::move(lock)); }   // before the note
  void add_note(Fd note) { locks_.push_back(std::move(note)), noted_ = true; }
  void clear() {
    while (!locks_.empty()) locks_.pop_back();
    noted_ = false;
  }
  // Lets the units go and gives the note to the caller; empty when there is none.
  Fd keep_note_only() {
    Fd note;
    if (noted_) note = std::move(locks_.back());
    clear();
    return note;
  }

  bool empty() const { return locks_.empty(); }
  auto begin() const { return locks_.begin(); }
  auto end() const { return locks_.end(); }

 private:
  std::vector<Fd> locks_;
  bool noted_ = false;
};

// The files of units of a claim around that cannot be locked from here, as they were found.
struct WatchedUnits {
  std::vector<Fd> files;
  std::vector<std::string> exchanged;  // keys of those that are others by now than were claimed: root has taken them back
};

// What a claim is made of.
struct ClaimParts {
  std::string id;                      // 16 hex digits; "outer/inner" for a claim within a claim
  std::vector<std::string> keys;       // the units, in slot order
  ClaimLocks locks;                    // the locked FIFOs, the directory's own locks, the note: in this order, CLOEXEC
  std::uint64_t taken_us = 0;          // CLOCK_BOOTTIME
  std::vector<std::uint64_t> passed = {};   // tickets that stood before it in line for one of these units as it took them
};

// Destroying it, release(), or the death of the last process that has copies of its locks lets its units go.
class Claim {
 public:
  enum class State : std::uint8_t {
    none,                              // of no unit: nothing was asked for, or it has been released
    held,                              // we have taken its units
    joined,                            // somebody of ours has taken them, and we keep them by copies of his locks
    reused,                            // all of the claim around it: its keeper keeps them
  };

  Claim() = default;
  explicit Claim(std::string id) { parts_.id = std::move(id); }   // of no unit
  Claim(State state, ClaimParts parts) : state_(state), parts_(std::move(parts)) {}
  Claim(Claim&& other) noexcept { *this = std::move(other); }
  Claim& operator=(Claim&& other) noexcept {
    if (this == &other) return *this;
    release();
    state_ = std::exchange(other.state_, State::none);
    parts_ = std::move(other.parts_);
    around_ = std::exchange(other.around_, {});
    watched_ = std::exchange(other.watched_, {});
    return *this;
  }
  ~Claim() { release(); }

  State state() const { return state_; }
  bool is_held() const { return state_ == State::held; }
  bool is_all_of_another() const { return state_ == State::joined || state_ == State::reused; }   // nothing was taken for it
  const std::string& id() const { return parts_.id; }
  const std::vector<std::string>& keys() const { return parts_.keys; }
  std::uint64_t taken_us() const { return parts_.taken_us; }
  bool has_passed(std::uint64_t ticket) const { return std::ranges::find(parts_.passed, ticket) != parts_.passed.end(); }

  // Of its own locks, for whoever may be given copies of them; good until it is released.
  std::vector<int> descriptors() const { return add({}, parts_.locks); }
  // And of those that it keeps of the claims around it: for what runs in it.
  std::vector<int> all_descriptors() const {
    std::vector<int> all = descriptors();
    for (const ClaimLocks& locks : around_) all = add(std::move(all), locks);
    return all;
  }

  // And of the files of units around it whose locks it does not have: they tell what root has taken back.
  std::vector<int> telling_descriptors() const {
    std::vector<int> all = all_descriptors();
    for (const Fd& file : watched_.files) all.push_back(file.get());
    return all;
  }
  const std::vector<std::string>& exchanged() const { return watched_.exchanged; }

  // It was made in this one, by which it is named from now on.
  void lies_within(const std::string& outer) { parts_.id = outer + "/" + parts_.id; }
  // Copies of the locks of a claim around it: nobody is given its units before this one has ended. The nearest first.
  void keep_around(ClaimLocks locks) { around_.push_back(std::move(locks)); }
  // What of it was taken back, and the files of its units where nobody lends their locks.
  void watch_around(WatchedUnits units) {
    std::ranges::move(units.files, std::back_inserter(watched_.files));
    std::ranges::move(units.exchanged, std::back_inserter(watched_.exchanged));
  }

  // First its own units, and what it keeps of those around after them. Its id stays, for people.
  void release() {
    parts_.locks.clear();
    around_.clear();
    watched_ = {};
    state_ = State::none;
  }
  // The same, but for the note, which the caller has from then on; empty where it has none.
  Fd release_to_note() {
    Fd note = parts_.locks.keep_note_only();
    release();
    return note;
  }

 private:
  static std::vector<int> add(std::vector<int> descriptors, const ClaimLocks& locks) {
    for (const Fd& lock : locks) descriptors.push_back(lock.get());
    return descriptors;
  }

  State state_ = State::none;
  ClaimParts parts_;
  std::vector<ClaimLocks> around_;
  WatchedUnits watched_;
};

}  // namespace thole::port
