// Puts jobs into the queue: everything that can be known to be wrong is said before anything is stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/claim/observer.hpp"
#include "app/queue/job_actions.hpp"
#include "base/shell_kind.hpp"
#include "model/job.hpp"
#include "plan/job/directives.hpp"   // for the front that reads scripts and job files
#include "plan/job/interpreter.hpp"  // likewise
#include "plan/place/select.hpp"
#include "port/job_store.hpp"
#include "port/processes.hpp"

namespace thole::app {

struct NamedText {
  std::string name;                              // of the file, for messages
  std::string text;
};

// One job as asked for.
struct SubmitWish {
  model::JobSpec spec;                           // without sweep and environment
  model::JobTerms terms;                         // without `after`
  std::vector<std::string> grid, after, env;     // words of --grid, --after and --env
  std::string array;                             // word of --array; "" = none
  std::optional<NamedText> csv, lines;
  bool if_absent = false;
  bool snapshot = false;                         // Submission::spec.snapshot is then "." until the copy is made
  std::string about;                             // where it stands, for messages: "jobs.toml:12 (train)"; "" = the command line
};

struct SubmitSite {
  port::JobReader& jobs;
  const plan::Environment& environment;          // of the submitting shell
  const Observer& glance;                        // the machine's GPUs from files alone …
  Observer& observer;                            // … and from the drivers, asked only before a refusal
  Millis patience;
  const port::Processes& processes;
  AskShell shell = {};
};

struct Prepared {
  std::vector<port::Submission> submissions;     // in an order in which each comes after those it waits for
  std::vector<std::string> notes;                // sentences: what was understood that the line does not say
};

// Wishes of one call may wait for each other by name; a circle of them throws Error(usage) that names it.
Prepared prepare(SubmitSite& site, std::vector<SubmitWish> wishes);

// Stored when it returns; then the runner is told. A runner that cannot be started is a sentence in `caution`:
// the jobs are safe.
struct Stored {
  std::vector<port::Submitted> jobs;
  std::string caution;
  std::string surroundings;                      // what the jobs will have from where the runner was started
  bool draining = false;   // nothing starts until the user says so
};
Stored submit(Queue queue, const std::vector<port::Submission>& submissions);

// The command of one task of a submission, for --dry-run.
std::vector<std::string> command_of(const port::Submission& submission, model::TaskIndex task);

}  // namespace thole::app
