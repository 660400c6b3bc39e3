// `thole init` in the system's directory; init.hpp tells how it works.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/claims/init.hpp"
#include "host/claims/init_record.hpp"
#include "host/claims/layout.hpp"
#include "host/claims/node_maker.hpp"
#include "host/claims/take_back.hpp"

namespace thole::host {

class SystemInit {
 public:
  // Waits for another init.
  SystemInit(const StatePaths& paths, const std::vector<std::string>& units, const InitWish& wish);
  InitReport run();

 private:
  Access access_wanted() const;
  // The only group that may claim. Empty where everybody may: then the nodes' group (root's) says nothing.
  std::optional<gid_t> gate() const { return maker_.access().mode == 0660 ? maker_.access().group : std::nullopt; }
  void make_files();
  void free_alloc();
  void make_notes();
  void forget_vanished();
  std::optional<bool> is_locked(const RecordedNode& node) const;
  std::optional<RecordedNode> recorded(const std::string& name) const;
  void note_taking();
  void leave_kept(std::vector<RecordedNode>& taken) const;
  void leave_noted(std::vector<RecordedNode>& taken) const;
  bool has_taken(const std::string& key) const;
  std::string keepers_of_taken() const;
  void add_units();
  void renew(const std::string& name);
  void name_fillers();
  void name_outsiders();
  void renew_file(const std::string& name, off_t size, bool anyhow = false);
  void write_devices();
  void complete();
  void write_record();
  bool cut_back(const std::string& name, off_t size, Allowance& attributes) const;
  bool is_there(const std::string& name) const;
  bool vanished(const std::string& key) const;
  std::set<std::string> vanished_units() const;
  Fd notes() const;
  std::string* slot_for_another();
  std::vector<pid_t> inside_claims_of(const std::set<std::string>& units) const;

  const StatePaths& paths_;
  const std::vector<std::string>& units_;
  const InitWish& wish_;
  InitReport report_;
  Fd lock_;
  InitRecord before_;                // what is taken back is added to it
  std::vector<std::string> held_;   // nodes, closed to newcomers
  StateDir dir_;
  NodeMaker maker_;
  TakeBack take_back_;
  SlotKeys keys_;
  bool keys_changed_ = false;
  std::optional<std::set<unsigned>> claimed_slots_;   // then, as it was before any was given to another
};

}  // namespace thole::host
