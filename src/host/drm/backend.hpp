// A GPU backend over files alone, for drivers that live in the kernel (AMD, Intel); what differs is in a FileVendor.
//
// Who the GPUs are comes from files that cannot block and is read in this process. Their present use takes locks of the
// driver, and a wedged GPU holds those for ever: it is read in a probe process that can be left behind. A captured tree
// cannot hang, so there everything is read in place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "host/kept_text.hpp"
#include "host/probe/channel.hpp"
#include "host/probe/runner.hpp"
#include "host/sysfs/tree.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host {

struct FileOptions {
  std::string root{};                      // "" is this machine
  std::string program{};                   // what runs `__probe <vendor>`: this very binary; "" = identity only
  std::string runtime_dir{};               // per user, 0700: the probe's lock and last answer; "" = none
};

// What a vendor provides whose GPUs are read from files alone. A GPU's key() joins its identity and its use.
struct FileVendor {
  model::Vendor vendor;
  const char* source;                      // for the observation: "kfd, sysfs"
  bool (*present)(const Tree& tree);
  // Identity, the vendor's own links, health as far as permissions tell it.
  std::vector<model::Gpu> (*identify)(const Tree& tree);
  // Present use, health as the hardware tells it, and total memory where files do not tell it (only when that is wanted, since
  // it wakes a GPU): emits each GPU as soon as it has been read, from any thread.
  void (*observe)(const Tree& tree, bool memory_wanted, const std::function<void(model::Gpu)>& emit);
  // Changes when GPUs come or go, so that identity is read again.
  std::string (*generation)(const Tree& tree);
  // A fault of the whole driver, with the fix; "" when there is none.
  std::string (*problem)(const Tree& tree);
};

// Takes at most `patience`. All GPUs are read, whatever the question: their files are quick. A GPU that does not answer gets
// health `hung` and, where there is one, the use it had when it last answered (Observation::age).
class FileBackend : public port::GpuBackend {
 public:
  FileBackend(const FileVendor& vendor, FileOptions options);

  std::string name() const { return to_string(vendor_.vendor); }
  bool present() const override { return vendor_.present(tree_); }
  port::Numbering numbering() const override { return {join(tree_.names("/sys/class/drm"), " ")}; }
  using port::GpuBackend::read;
  port::Reading read(Millis patience, const port::Question& question) override;
  void rest() override { probe_.discard(); }

 private:
  void ask(port::Reading& reading, Millis patience);
  void recall_memories();
  bool memory_wanted() const;
  void learn_memories(const std::vector<model::Gpu>& gpus);

  const FileVendor& vendor_;
  FileOptions options_;
  Tree tree_;
  ProbeRunner probe_;
  KeptText kept_;                          // total memories that a driver had to be asked for, of this boot
  std::vector<model::Gpu> identified_;     // as of generation_
  std::optional<std::string> generation_;
  std::string boot_;
};

// The child side: `thole __probe amd`. Serves until the parent hangs up or asks nothing for a while.
int serve_probe(const FileVendor& vendor, ProbeChannel channel);

// Runs `read` on each entry, on the live machine in a thread of its own each: one that hangs keeps only itself from being read.
template <class Entry, class Read>
void each_by_itself(const Tree& tree, std::vector<Entry>& entries, Read read) {
  std::vector<std::thread> threads;
  for (Entry& entry : entries) {
    try {
      if (tree.live() && entries.size() > 1) {
        threads.emplace_back([&read, &entry] { read(entry); });
        continue;
      }
    } catch (const std::system_error&) {         // no further thread is to be had: this one reads it
    }
    read(entry);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace thole::host
