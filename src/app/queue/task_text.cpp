#include "app/queue/task_text.hpp"

#include <cstring>

#include "app/queue/task_end.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::app {

namespace {

std::string precise(Millis duration) {
  const auto ms = duration.count();
  return ms < 60'000 ? fmt::format("{}.{:03} s", ms / 1000, ms % 1000) : format_duration(std::chrono::round<Seconds>(duration));
}

}  // namespace

std::string header_text(const TaskHeader& header) {
  std::string text =
      fmt::format("# thole job {}{} on {}, {}\n", header.name, header.runs > 1 ? fmt::format(", run {}", header.runs) : "",
                  printable(header.host, 255), format_iso(header.started));
  text += "# command: " + printable(command_line(header.argv), 4096) + "\n";
  text += "# directory: " + printable(header.directory, 4096) + "\n";
  text += "# GPUs: " + (header.gpus.empty() ? "none" : printable(join(header.gpus, ", "), 4096)) +
          (header.cpus.empty() ? "" : "; CPUs: " + header.cpus) + "\n";
  return text;
}

std::string ending_text(const port::Ended& ended) {
  if (ended.exit_code) return fmt::format("exit status {}", *ended.exit_code);
  if (!ended.signal) return "exit status unknown";
  const char* name = ::strsignal(*ended.signal);
  return fmt::format("killed by signal {} ({}){}", *ended.signal, name ? name : "?", ended.core ? ", core dumped" : "");
}

std::string out_of_reach_text(const std::vector<std::string>& processes) {
  std::vector<std::string> words;
  for (const std::string& process : processes) words.push_back(printable(process, 76));
  return "the kernel lets only their own user or root end, stop or continue: process " + join(words, "; process ");
}

std::string spared_text(const std::vector<std::string>& processes) {
  std::vector<std::string> words;
  for (const std::string& process : processes) words.push_back(printable(process, 76));
  return "left alone, for what was started before thole may have left it: process " + join(words, "; process ");
}

std::string footer_text(const TaskFooter& footer) {
  const port::Ended& ended = footer.over.ended;
  std::string text = fmt::format("# ended {} after {}: {}", format_iso(footer.ended), precise(footer.ran), ending_text(ended));
  if (footer.over.cancelled) text += ", cancelled";
  else if (!footer.reason.empty()) text += ", " + footer.reason;
  if (footer.over.peak_memory_kib)
    text += fmt::format("; peak memory {}", format_mib(mib_of_kib(*footer.over.peak_memory_kib)));
  if (footer.peak_gpu_mib) text += "; peak GPU memory " + format_mib(*footer.peak_gpu_mib);
  text += "\n";
  for (const std::string& process : some_of(ended.left_behind)) text += "# left behind: " + printable(process, 200) + "\n";
  if (!footer.next.empty()) text += "# " + footer.next + "\n";
  return text;
}

}  // namespace thole::app
