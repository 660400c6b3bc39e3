// thole plan --batch: one JSON request a line in, one JSON answer a line out, for programs that plan for many machines.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include "app/show/plan.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/output.hpp"
#include "model/json_plan.hpp"
#include "wire/machines.hpp"

namespace thole::cli {

namespace {

struct PlanOptions {
  bool batch = false;
};

constexpr Option plan_options[] = {
  {0, "batch", "", "read one JSON request a line from stdin and write one JSON answer a line to stdout",
   [](PlanOptions& o, const Word&) { o.batch = true; }},
};

constexpr std::size_t longest_request = 64u << 20;  // a machine of thousands of CPUs has a few MiB

struct InputLine {
  std::string_view text;                       // without its end
  bool too_long = false;                       // then there is no text
};

// The lines of stdin and the answers on stdout. Before it waits for more, what was answered so far is written: a program may
// ask one by one.
class Lines {
 public:
  // False at the end of input. The text is good until the next call.
  bool next(InputLine& line) {
    for (;;) {
      const std::size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos) return give(line, end);
      searched_ = buffer_.size();
      if (searched_ - begin_ > longest_request) {
        skipping_ = true;
        begin_ = searched_ = 0;
        buffer_.clear();
      }
      if (!more()) return (begin_ < buffer_.size() || skipping_) && give(line, buffer_.size());
    }
  }

  void answer(const std::string& text) { answers_ += text + "\n"; }

  void flush() {
    give_bytes(answers_);
    answers_.clear();
  }

 private:
  bool give(InputLine& line, std::size_t end) {
    line = {std::string_view(buffer_).substr(begin_, skipping_ ? 0 : end - begin_), skipping_};
    skipping_ = false;
    begin_ = searched_ = std::min(end + 1, buffer_.size());
    return true;
  }

  bool more() {
    buffer_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
    constexpr std::size_t piece = 256u << 10;
    if (!is_readable(STDIN_FILENO) || answers_.size() > piece) flush();
    const std::size_t had = buffer_.size();
    buffer_.resize(had + piece);
    ssize_t got;
    do got = ::read(STDIN_FILENO, buffer_.data() + had, piece);
    while (got < 0 && again_when(STDIN_FILENO, POLLIN));
    buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) throw Error(ErrorCode::unavailable, "cannot read the requests").about("stdin").because(errno);
    return got > 0;
  }

  std::string buffer_, answers_;
  std::size_t begin_ = 0, searched_ = 0;       // of the line that is being looked for
  bool skipping_ = false;                      // the line began in a buffer that was given up
};

model::Json too_long() {
  return model::to_json(model::PlanRefusal{name(ErrorCode::usage), "the line is longer than 64 MiB", std::nullopt});
}

int plan(Context& context) {
  if (!context.invocation.own.as<PlanOptions>().batch)
    throw Error(ErrorCode::usage, "plan needs --batch").hint("to see what one command would get: thole run --dry-run COMMAND");
  wire::Machines machines(context.wire.settings());
  app::PlanMachines from;
  from.complete = [&](model::Machine& machine) { machines.complete(machine); };
  from.named = [&](const std::string& name) -> const model::Snapshot& {
    if (!name.empty()) return machines.named(name);
    app::Observer& here = context.wire.observer();  // looked at once: what is busy, a request says itself
    return here.snapshot().taken_at == WallTime{} ? here.look(context.wire.settings().probe_cold) : here.snapshot();
  };
  Lines lines;
  InputLine line;
  while (lines.next(line)) {
    const model::Json answer = line.too_long ? too_long() : app::answer_line(line.text, from);
    lines.answer(model::dump(answer, -1));
  }
  lines.flush();
  return 0;
}

constexpr Example plan_examples[] = {
  {"thole plan --batch < requests > answers", "what each of many requests would get; docs/plan.md"},
};

}  // namespace

extern constexpr Verb plan_verb = {
    .name = "plan",
    .summary = "which GPUs and CPUs it would be, for programs that ask for many machines",
    .options = plan_options,
    .examples = plan_examples,
    .run = plan,
};

}  // namespace thole::cli
