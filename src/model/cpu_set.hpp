// A set of CPU numbers (PUs), printed and parsed as taskset -c does: "0-3,16-19".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thole::model {

class CpuSet {
 public:
  CpuSet() = default;
  static std::optional<CpuSet> parse(std::string_view list);  // "" is the empty set; nothing when malformed

  void add(unsigned cpu);
  void remove(unsigned cpu);
  bool contains(unsigned cpu) const;
  bool empty() const;
  std::size_t size() const;
  std::vector<unsigned> to_vector() const;  // ascending
  std::string to_string() const;

  CpuSet operator&(const CpuSet& other) const;
  CpuSet operator|(const CpuSet& other) const;
  CpuSet operator-(const CpuSet& other) const;
  bool operator==(const CpuSet& other) const;

 private:
  std::vector<std::uint64_t> words_;  // no trailing zero words
};

}  // namespace thole::model
