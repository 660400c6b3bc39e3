// What `map` shows of its tasks: their output, whole or line by line, in the order of their ends or of their items; or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "app/map/log_file.hpp"
#include "app/map/map.hpp"
#include "cli/context.hpp"
#include "cli/outlet.hpp"
#include "cli/show/kept_outputs.hpp"

namespace thole::cli {

class MapOutput {
 public:
  // `log`: null where none is kept. `folder`: for files without a name.
  MapOutput(const Context& context, Outlet& outlet, app::JobLogFile* log, bool keep_order, std::string folder)
      : context_(context), outlet_(outlet), log_(log), keep_order_(keep_order), kept_(std::move(folder)) {}

  app::MapEvents events(app::RunEvents claims);  // refer to this object
  void finish();                       // what --keep-order still holds back

  // After a failure of ours, which is the caller's to tell: what has ended is shown and waited for all the same.
  void finish_after(const app::MapOutcome& failed);
  void say_end(const app::MapOutcome& outcome, int status);

  // Until all has been read, or a signal asks to end: which one. Where the map has ended by one already, only as long as
  // somebody reads. Throws as a write does.
  std::optional<int> wait_until_read(const app::MapOutcome& outcome);

 private:
  // What has come of a task's two streams after the last line end, or after what of a line was too long to be kept.
  struct Rest {
    struct Kept { std::string text; bool is_shown_in_part = false; };
    Kept output, errors;
  };

  void text(const app::MapTask& task, bool errors, std::string_view bytes);
  void text_ends(const app::MapTask& task);
  void ended(const app::MapTask& task, app::MapEnd end);
  void log(const app::MapTask& task, const app::MapEnd& end);
  void in_order(std::uint64_t order, port::TaskOutput output);
  void show(port::TaskOutput& output);
  void show_first();
  void show_json(const app::MapTask& task, const app::MapEnd& end);
  void write(int fd, std::string_view bytes);
  bool is_stalled();
  void must_be_writable();                       // the log, too
  void output_must_be_writable();
  std::optional<int> drain(bool interrupted);
  [[noreturn]] void cannot_write(int why);

  const Context& context_;
  Outlet& outlet_;
  app::JobLogFile* log_;
  bool keep_order_;
  std::map<std::size_t, Rest> rests_;            // by bay: --line-buffer
  KeptOutputs kept_;                             // --keep-order
  std::deque<KeptOutput> held_;                  // by order, from the first that has not been shown
  std::uint64_t next_ = 0;                       // that one
  bool is_lost_ = false;                         // what should go to stdout
  std::string first_failed_;
};

}  // namespace thole::cli
