// What somebody wants, as one value; made by the command line, the C ABI or the queue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.hpp"
#include "model/queue_view.hpp"

namespace thole::model {

enum class Pick { pack, first, last, random, load, memory };
enum class ShareWith { same_user, any };
// How the GPUs of one request talk to each other: all in step (the slowest link counts), each with each (the sum counts), or
// not at all.
enum class Shape { collective, pairwise, independent };

std::optional<Beside> parse_beside(std::string_view text);
std::optional<Pick> parse_pick(std::string_view text);
std::optional<Shape> parse_shape(std::string_view text);
const char* to_string(Beside beside);
const char* to_string(Pick pick);
const char* to_string(Shape shape);

struct Request {
  unsigned gpus = 1;                        // how many units; 0 claims none
  std::vector<std::string> on, not_on;      // index, UUID or unique prefix, PCI address, MIG UUID; empty = any
  std::string model;                        // case-insensitive part of the model name; empty = any
  std::optional<std::uint64_t> memory_mib;  // exclusive: free memory needed; shared: my budget (required)
  bool share = false;
  ShareWith share_with = ShareWith::same_user;
  Beside beside = Beside::none;
  std::optional<double> max_load_percent, max_memory_percent;  // thresholds of --beside; default 50
  Pick pick = Pick::pack;
  Shape shape = Shape::collective;          // for Pick::pack
  std::vector<std::string> order;           // named as in `on`: take these first, in this order; empty = by `pick`
  bool trust_claims = false;                // only claims count; do not look at the driver's processes
  unsigned leave = 0;                       // units that stay free for others when it starts
  std::optional<Seconds> time;              // declared length (and, where enforced, the limit)
  std::optional<Millis> wait;               // give up after this long; nothing = wait for ever; 0 = --no-wait
  std::uint64_t seed = 0;                   // for Pick::random

  // What it asks of the line.
  Terms terms() const;

  // "2 A100, 20.0 GiB free", for messages.
  std::string describe() const;
};

// What a site considers noise (configuration).
struct FreePolicy {
  std::vector<std::string> ignore_processes{"nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nv-hostengine",
                                            "dcgm", "dcgm-exporter", "nvidia-persistenced"};
  std::uint64_t ignore_memory_mib = 64;     // memory in use that nobody owns up to this much is the driver's own
};

}  // namespace thole::model
