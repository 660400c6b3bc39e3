// thole plan --batch: one JSON request a line in, one JSON answer a line out, for programs that plan for many machines.
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "model/plan_request.hpp"
#include "plan/batch.hpp"
#include "wire/machines.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t longest_line = 64u << 20;  // a machine of thousands of CPUs has a few MiB

// Lines of stdin. Before it waits for more, what was answered so far is written: a program may ask one by one.
class Lines {
 public:
  explicit Lines(std::string& answers) : answers_(answers) {}

  // The next line, without its end; nothing at the end of input. One that is too long comes as nullopt in `line`.
  bool next(std::optional<std::string_view>& line) {
    for (;;) {
      const std::size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos) {
        give(line, end);
        return true;
      }
      searched_ = buffer_.size();
      if (searched_ - begin_ > longest_line) {
        skipping_ = true;
        begin_ = searched_ = 0;
        buffer_.clear();
      }
      if (!more()) {
        if (begin_ == buffer_.size() && !skipping_) return false;
        give(line, buffer_.size());
        return true;
      }
    }
  }

 private:
  void give(std::optional<std::string_view>& line, std::size_t end) {
    line = std::string_view(buffer_).substr(begin_, end - begin_);
    if (skipping_) line.reset();
    skipping_ = false;
    begin_ = searched_ = std::min(end + 1, buffer_.size());
  }

  bool more() {
    buffer_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
    constexpr std::size_t piece = 256u << 10;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) == 0 || answers_.size() > piece) flush();
    const std::size_t had = buffer_.size();
    buffer_.resize(had + piece);
    ssize_t got;
    do got = ::read(STDIN_FILENO, buffer_.data() + had, piece);
    while (got < 0 && errno == EINTR);
    buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) throw Error(ErrorCode::unavailable, "cannot read the requests").about("stdin").because(errno);
    return got > 0;
  }

 public:
  void flush() {
    if (!answers_.empty() && !write_all(STDOUT_FILENO, answers_))
      throw Error(ErrorCode::internal, "cannot write the answers").about("stdout").because(errno);
    answers_.clear();
  }

 private:
  std::string& answers_;
  std::string buffer_;
  std::size_t begin_ = 0, searched_ = 0;       // of the line that is being looked for
  bool skipping_ = false;                      // the line began in a buffer that was given up
};

class Planner {
 public:
  explicit Planner(Context& context) : context_(context), machines_(context.wire.settings()) {}

  // The boundary of one line, as a queue has one for each job: what is wrong with it becomes its answer.
  model::Json answer(std::optional<std::string_view> line) {
    try {
      if (!line) throw Error(ErrorCode::usage, "the line is longer than 64 MiB");
      const model::PlanRequest request = model::plan_request_from_json(model::parse_json(std::string(*line), ""));
      return std::visit([](const auto& value) { return model::to_json(value); }, plan::answer(machine_of(request), request));
    } catch (const Error& error) {
      return model::to_json(model::PlanRefusal{name(error.code()), error.full(), std::nullopt});
    }
  }

 private:
  const model::Snapshot& machine_of(const model::PlanRequest& request) {
    if (!request.machine.empty()) return machines_.named(request.machine);
    if (request.own) {
      own_.machine = *request.own;
      return own_;
    }
    app::Observer& here = context_.wire.observer();
    if (here.snapshot().machine.cpus.empty()) {
      here.read_topology();
      here.look(context_.wire.settings().probe_cold);
    }
    return here.snapshot();
  }

  Context& context_;
  wire::Machines machines_;
  model::Snapshot own_;
};

}  // namespace

int plan(Context& context) {
  if (!context.invocation.plan.batch)
    throw Error(ErrorCode::usage, "plan needs --batch").hint("to see what one command would get: thole run --dry-run COMMAND");
  Planner planner(context);
  std::string answers;
  Lines lines(answers);
  for (std::optional<std::string_view> line; lines.next(line);) answers += model::dump(planner.answer(line), -1) + "\n";
  lines.flush();
  return 0;
}

}  // namespace thole::cli
