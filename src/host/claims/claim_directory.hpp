// An opened state directory with its nodes: the slots it names, and checked ways to open each node.
//
// How this works. The owner of the directory makes the nodes, once: `alloc` first, `queue` last, so that the `queue` proves
// the others. The system's directory is made and mended by `thole init` alone (init.hpp), which never waits for `alloc`: what
// it replaces (nodes, `devices`, on a change of access the shared files too) loses its name, and whoever has it open looks for
// that after locking. In other directories the owner's own claims make what is missing, under `alloc`: a first lot of turn
// nodes (a thousand of them take a disk half a second) and more when they are short; personal ones get turn and share nodes
// when they are first used. There a lock node that is missing although `devices` names its slot was deleted, perhaps under a
// living claim: it is made anew only while nobody holds the directory. So are the first ones of a directory without `devices`,
// which may have been emptied; and so is a lock node taken that is not the one `devices` names: it was copied or made by hand.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/claims/alloc_lock.hpp"
#include "host/claims/layout.hpp"
#include "host/claims/node_maker.hpp"
#include "host/state_dir.hpp"
#include "port/claim_store.hpp"

namespace thole::host {

class ClaimDirectory {
 public:
  // Makes what is missing if the directory is mine; adds slots for `keys` (all units of this machine). In a directory of
  // somebody else nothing is made; a key without a slot is no error before it is asked for.
  ClaimDirectory(StateDir dir, std::span<const std::string> keys);

  const StateDir& state() const { return state_; }
  const std::string& path() const { return state_.path; }
  const std::vector<std::string>& cautions() const { return state_.cautions; }

  int alloc() const { return alloc_.get(); }
  int queue() const { return queue_.get(); }
  int who() const { return who_.get(); }

  // Has `thole init` replaced what this has open? Asked after locking alloc: then everything is opened anew.
  bool replaced() const;

  // Slots. Under alloc; refresh_slots re-reads `devices` if it was replaced and says whether the slots changed.
  bool refresh_slots();
  const SlotKeys& slots() const { return keys_; }
  std::optional<unsigned> slot_of(std::string_view key) const;

  // Open a node, never blocking. Empty when it does not exist, or (ENXIO) when a FIFO opened for writing has no reader;
  // errno tells. Every other failure throws: a node that cannot be opened is neither busy nor dead.
  Fd open_gpu(unsigned slot, int flags) const { return open_node(gpu_names_[slot], flags); }
  // `make`: the owner makes it now if there is none (share nodes only in a personal directory).
  Fd open_share(unsigned slot, unsigned berth, int flags, bool make = false) const;
  Fd open_turn(unsigned index, int flags, bool make = false) const;
  // For those who look: the units that have no lock to claim them by, or not the one in which a claim of them may live.
  struct Lost {
    std::vector<port::OutOfReach> units;
    std::string why;                   // what a claim would be told of the locks; "": they are all there
  };
  Lost what_is_lost(std::span<const std::string> units) const;
  [[noreturn]] void gpu_is_missing(unsigned slot) const { cannot_open(gpu_names_[slot], ENOENT); }
  [[noreturn]] void gpu_is_no_lock(unsigned slot) const;

  // After locking: what this descriptor is of, where it still has its name. Its owner deletes or replaces a node only while he
  // has it locked himself: one that has its name after we locked it keeps it.
  std::optional<struct stat> named(int fd, const std::string& name) const {
    return thole::named(state_.fd.get(), name.c_str(), fd);
  }
  const std::string& gpu_name(unsigned slot) const { return gpu_names_[slot]; }
  bool is_node(const struct stat& found) const { return S_ISFIFO(found.st_mode) && found.st_uid == state_.owner; }

  // After locking: is it the node of this slot that thole made? Another one is accepted (the owner notes it down) when no
  // living claim may have the node that it came in place of; else this throws.
  void accept(std::uint64_t inode, unsigned slot);

  // What `thole init` does in a directory that is not the system's; its owner only, under alloc. Makes deleted lock nodes anew
  // (throws while a claim lives), adds slots for `keys`, frees those of other keys that nobody holds. Says how many were freed.
  unsigned mend(std::span<const std::string> keys);

 private:
  Fd open_node(const std::string& name, int flags) const;
  Fd open_or_make(const std::string& name, int flags, bool make) const;
  NodeMaker maker() const { return {state_.fd.get(), state_.path, access_}; }
  void wait_until_made();
  void complete(std::span<const std::string> keys);
  void make_fixed_nodes();
  bool add_slots(std::span<const std::string> keys);
  void make_notes();
  void make_slot_nodes(const std::string& key);
  void refuse_if_emptied(std::span<const std::string> keys) const;
  void write_devices();
  void reserve_space();
  void load_slots(const std::string& text);
  void caution_of_unknown(std::span<const std::string> keys);
  std::string group_of(const std::string& name) const;
  std::string way_to_replace(const std::string& name) const;
  void check_file(int fd, const std::string& name) const;
  [[noreturn]] void cannot_open(const std::string& name, int reason) const;

  StateDir state_;
  Access access_;
  bool share_nodes_ = true;            // exist from the start
  unsigned turn_nodes_ = 64;           // so many exist from the start
  Fd alloc_, queue_, who_;
  SlotKeys keys_;
  std::array<std::string, model::max_slots> gpu_names_;
  Fd devices_;                         // the one that keys_ was read from
  SlotInodes slot_nodes_{};            // as it names them
};

}  // namespace thole::host
