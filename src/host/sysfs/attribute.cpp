#include "host/sysfs/attribute.hpp"

#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

model::Metric<std::uint64_t> number_attribute(const Tree& tree, const std::string& path) {
  using Number = model::Metric<std::uint64_t>;
  auto text = read_file(tree.at(path), 256);
  if (!text) {
    // Drivers make the file and then refuse it on chips that lack the sensor: EOPNOTSUPP, EINVAL, ENODATA.
    for (int absent : {ENOENT, ENOTDIR, ENXIO, EOPNOTSUPP, EINVAL, ENODATA})
      if (errno == absent) return Number::unsupported();
    return Number::failed(std::strerror(errno));
  }
  auto number = parse_u64(trim(*text));
  return number ? Number(*number) : Number::failed("the driver gave no number");
}

model::Metric<double> scaled_attribute(const Tree& tree, const std::string& path, double unit) {
  auto number = number_attribute(tree, path);
  using State = model::Metric<std::uint64_t>::State;
  if (number.known()) return model::Metric<double>(static_cast<double>(*number) / unit);
  return number.state() == State::failed ? model::Metric<double>::failed(number.why()) : model::Metric<double>::unsupported();
}

model::Metric<std::uint64_t> mib_attribute(const Tree& tree, const std::string& path) {
  auto bytes = number_attribute(tree, path);
  return bytes.known() ? model::Metric<std::uint64_t>(mib_of_bytes(*bytes)) : bytes;
}

}  // namespace thole::host
