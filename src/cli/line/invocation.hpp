// What the command line said, as one value: the verb, the words after it, and everything its options chose.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/map/wishes.hpp"
#include "base/time.hpp"
#include "cli/line/queue_options.hpp"
#include "model/bind_wishes.hpp"
#include "model/request.hpp"

namespace thole::cli {

struct Verb;

// Options that go with every verb, before or after it. Absent = the configuration decides.
struct Globals {
  std::optional<std::string> machine;  // a simulated machine: a file, a shipped name, or "8xA100"
  std::optional<std::string> state_dir;
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool no_color = false;
  bool help = false;
  bool version = false;
};

struct StatusOptions {
  bool list = false;
  std::optional<Millis> watch;  // redraw this often; absent = once
};

struct RunOptions {
  bool dry_run = false;
  bool linger = false;
  bool no_supervisor = false;
  std::string ids;  // "auto", "uuid" or "index"; "" = the configuration decides
  std::string status_file;
  std::string in;  // the claim to run in
  bool part_of_it = false;   // … with words that say how much of it
};

struct ClaimOptions {
  bool shell = false;
  std::optional<pid_t> pid;
  bool placeholder = false;
};

struct CaptureOptions {
  std::string output;  // "" = stdout
  std::string from;    // another program's file or a folder; "" = this machine
  bool use = false;
  bool anonymous = false;
};

struct TopoOptions {
  std::string svg;  // "" = text, "-" = the picture on stdout
  bool matrix = false;
};

struct MapOptions {
  unsigned lanes = 0;  // 0 = as many as get GPUs; without GPUs one for each CPU
  unsigned per_gpu = 1;
  std::string file;    // of items; "" = stdin
  bool zero = false, csv = false;
  bool keep_order = false, ungroup = false, line_buffer = false;
  app::MapWishes wishes;
};

struct PlanOptions {
  bool batch = false;
};

struct SimulateOptions {
  bool history = false;
  std::string vc;                       // "" = all
  std::optional<unsigned> gpus, max_width;
  std::optional<double> declared;       // 0: nobody declares
  double declaring_percent = 100;       // of the jobs
  std::string policy = "thole";
};

struct JupyterOptions {
  std::string venv;                     // whose Python the kernel runs; "" = the active one
  std::string name;                     // of the kernel; "" = made from the GPUs and the environment
};

struct InitOptions {
  std::string group;        // nodes become 0660 of this group
  bool no_group = false;    // and 0666 again
  std::vector<std::string> take_back;
  bool force = false;
};

struct BindCommandOptions {
  std::optional<pid_t> pid;             // a process that runs, instead of a command
  std::optional<unsigned> local_rank, ranks;
};

struct Invocation {
  const Verb* verb = nullptr;
  Globals global;
  model::Request request;  // starts as the configuration's defaults
  StatusOptions status;
  RunOptions run;  // `claim` shares dry_run and ids
  model::BindWishes binding;
  BindCommandOptions bind;
  ClaimOptions claim;
  CaptureOptions capture;
  TopoOptions topo;
  InitOptions init;
  PlanOptions plan;
  MapOptions map;
  QueueOptions queue;
  SimulateOptions simulate;
  JupyterOptions jupyter;
  std::vector<std::string> typed;  // everything after the verb, for `submit`, which puts a script's own options before it
  std::vector<std::string_view> options;  // the names of those given, as the table has them
  std::vector<std::string> remarks;  // sentences on what was understood, for stderr
  std::vector<std::string> words;  // GPUs, claims, jobs, or the command to run with its arguments
};

}  // namespace thole::cli
