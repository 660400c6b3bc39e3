// Port: one source of GPUs (a vendor's files and library, or a machine file).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/machine.hpp"

namespace thole::port {

// What a reading gives: the GPUs it could see (identity at least) and how the reading went.
struct Reading {
  std::vector<model::Gpu> gpus;
  model::Observation observation;
};

// What a reading is for, and so how much has to be asked of a driver.
enum class Purpose {
  claim,    // what decides whether a GPU may be handed out
  show,     // and what people see: load, temperature, power
  examine,  // and what only a doctor asks; nothing that was read before is taken for granted
};

struct Question {
  Purpose purpose = Purpose::show;
  std::vector<std::string> only;                 // keys of GPUs: of the others, what was read before will do; empty = all
};

// What the driver's numbers go by: while it is the same, so are they. Where it does not tell all of it they may change all the
// same: a GPU that fails, or is partitioned, may leave no trace in files.
struct Numbering {
  std::string text;
  bool tells_all = true;
};

class GpuBackend {
 public:
  virtual ~GpuBackend() = default;

  // Whether this machine has anything for the backend (a driver's directory, a PCI device). Files only, microseconds.
  virtual bool present() const = 0;

  // Whether read() could give something else than last time. Cheap; a live driver always says yes, a machine file
  // compares the file's stamp.
  virtual bool changed() { return true; }

  // For the price of a few system calls; any thread.
  virtual Numbering numbering() const { return {}; }

  // Reads identity and present use. Never blocks longer than `patience`, whatever the driver does; what could not be
  // read in time is marked in Gpu::health, the metrics and the observation. A driver that is still answering then goes on:
  // the next reading of this backend takes up where this one stopped. Throws only for bugs.
  virtual Reading read(Millis patience, const Question& question) = 0;
  Reading read(Millis patience) { return read(patience, {}); }

  // The most memory, in MiB, that one process has had on one of these GPUs (keys, of this backend), of the processes that
  // started within the span: also of those that are over. Nothing: not known. That is so where the driver keeps no account
  // of processes on one of the GPUs (by the last reading: then it is not asked), where it names no such process, and when it
  // does not answer within `patience` (then it is not asked again before the next reading). Leaves nothing waiting.
  virtual std::optional<std::uint64_t> peak_memory_mib(const std::vector<std::string>& /*gpus*/, WallTime /*from*/,
                                                       WallTime /*to*/, Millis /*patience*/) {
    return std::nullopt;
  }

  // Ends what a reading leaves waiting for the next one (a probe process). Called before a command is started beside us, and
  // when nothing is to be read for long; the next read() starts afresh.
  virtual void rest() {}
};

}  // namespace thole::port
