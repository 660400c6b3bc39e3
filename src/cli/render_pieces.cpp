#include "base/text.hpp"
#include "cli/render.hpp"

namespace thole::cli {

namespace {

// What stands for a figure that is not there.
template <class T>
std::string_view absent(const model::Metric<T>& metric) {
  return metric.state() == model::Metric<T>::State::unsupported ? "-" : "?";
}

std::string gib(std::uint64_t mib, bool whole) {
  const double gib = static_cast<double>(mib) / 1024;
  return whole ? fmt::format("{:.0f}", gib) : fmt::format("{:.1f}", gib);
}

}  // namespace

std::string short_model(std::string_view model) {
  constexpr std::string_view makers[] = {"NVIDIA ", "AMD Instinct ", "AMD ", "Intel(R) ", "Intel ", "Tesla "};
  for (std::string_view maker : makers)
    if (model.starts_with(maker)) model.remove_prefix(maker.size());
  return std::string(model);
}

std::string figure(const model::Metric<double>& metric, std::string_view unit) {
  return metric.known() ? fmt::format("{:.0f}{}", *metric, unit) : std::string(absent(metric));
}

std::string memory_use(const model::Metric<std::uint64_t>& used, std::optional<std::uint64_t> total) {
  const std::string left = used.known() ? gib(*used, false) : std::string(absent(used));
  if (!total) return left + (used.known() ? "G/?" : "/?");
  return fmt::format("{}/{}G", left, gib(*total, *total >= 10240));
}

std::string holder_name(const model::Holding& holding) {
  if (holding.user.empty()) return "?";
  return (holding.verified ? "" : "?") + printable(holding.user, 32);  // in front, where it is never cut off
}

}  // namespace thole::cli
