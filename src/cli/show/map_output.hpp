// What `map` shows of its tasks: their output, whole or line by line, in the order of their ends or of their items; or JSON.
#pragma once

#include <map>
#include <string>

#include "app/map/log_file.hpp"
#include "app/map/map.hpp"
#include "cli/context.hpp"

namespace thole::cli {

class MapOutput {
 public:
  // `log`: null where none is kept.
  MapOutput(const Context& context, app::JobLogFile* log, bool keep_order)
      : context_(context), log_(log), keep_order_(keep_order) {}

  app::MapEvents events(app::RunEvents claims);  // refer to this object
  void finish();                       // what --keep-order still holds back
  void say_end(const app::MapOutcome& outcome, int status);

  // The signal that came while nobody read what was written (an Error(interrupted) says so).
  std::optional<int> interrupted_by() const { return interrupted_by_; }

 private:
  // What has come of a task's two streams after the last line end.
  struct Rest { std::string output, errors; };

  void text(const app::MapTask& task, bool errors, std::string_view bytes);
  void ended(const app::MapTask& task, app::MapEnd end);
  void log(const app::MapTask& task, const app::MapEnd& end);
  void in_order(std::uint64_t order, port::TaskOutput output);
  void show(const port::TaskOutput& output);
  void show_json(const app::MapTask& task, const app::MapEnd& end);
  void write(int fd, std::string_view bytes);
  void wait_until_read(int fd);

  const Context& context_;
  app::JobLogFile* log_;
  bool keep_order_;
  std::map<std::size_t, Rest> rests_;            // by place: --line-buffer
  std::map<std::uint64_t, port::TaskOutput> held_;  // by order: --keep-order
  std::uint64_t next_ = 0;                       // the first order not shown
  std::string first_failed_;
  std::optional<int> interrupted_by_;
};

}  // namespace thole::cli
