#include "model/cpu_set.hpp"

#include <bit>

#include "base/text.hpp"

namespace thole::model {

namespace {

constexpr std::size_t bits = 64;
constexpr std::uint64_t highest_cpu = 65535;  // eight times the most a Linux kernel can be built for; bounds a hostile list

}  // namespace

std::optional<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  list = trim(list);
  if (list.empty()) return set;
  for (std::string_view piece : split(list, ',')) {
    std::string_view range = piece, step_text = "1";
    if (std::size_t colon = range.find(':'); colon != std::string_view::npos) {
      step_text = range.substr(colon + 1);
      range = range.substr(0, colon);
      if (range.find('-') == std::string_view::npos) return std::nullopt;  // a step needs a range
    }
    std::size_t dash = range.find('-');
    auto first = parse_u64(trim(range.substr(0, dash)));
    auto last = dash == std::string_view::npos ? first : parse_u64(trim(range.substr(dash + 1)));
    auto step = parse_u64(trim(step_text));
    if (!first || !last || !step || *step == 0 || *last < *first || *last > highest_cpu) return std::nullopt;
    for (std::uint64_t cpu = *first; cpu <= *last; cpu += *step) {
      set.add(static_cast<unsigned>(cpu));
      if (*step > highest_cpu) break;  // the next would be beyond any range, or wrap
    }
  }
  return set;
}

void CpuSet::add(unsigned cpu) {
  if (cpu / bits >= words_.size()) words_.resize(cpu / bits + 1);
  words_[cpu / bits] |= std::uint64_t{1} << cpu % bits;
}

void CpuSet::remove(unsigned cpu) {
  if (cpu / bits >= words_.size()) return;
  words_[cpu / bits] &= ~(std::uint64_t{1} << cpu % bits);
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

bool CpuSet::contains(unsigned cpu) const { return cpu / bits < words_.size() && (words_[cpu / bits] >> cpu % bits & 1) != 0; }

bool CpuSet::empty() const { return words_.empty(); }

std::size_t CpuSet::size() const {
  std::size_t count = 0;
  for (std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
  return count;
}

std::vector<unsigned> CpuSet::to_vector() const {
  std::vector<unsigned> cpus;
  for (std::size_t i = 0; i < words_.size(); ++i)
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
      cpus.push_back(static_cast<unsigned>(i * bits + static_cast<std::size_t>(std::countr_zero(word))));
  return cpus;
}

std::string CpuSet::to_string() const {
  std::vector<unsigned> cpus = to_vector();
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[i]);
    if (end - i > 1) text += (end - i > 2 ? "-" : ",") + std::to_string(cpus[end - 1]);
    i = end;
  }
  return text;
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet result;
  for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i)
    result.words_.push_back(words_[i] & other.words_[i]);
  while (!result.words_.empty() && result.words_.back() == 0) result.words_.pop_back();
  return result;
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet result = words_.size() >= other.words_.size() ? *this : other;
  const CpuSet& shorter = words_.size() >= other.words_.size() ? other : *this;
  for (std::size_t i = 0; i < shorter.words_.size(); ++i) result.words_[i] |= shorter.words_[i];
  return result;
}

CpuSet CpuSet::operator-(const CpuSet& other) const {
  CpuSet result = *this;
  for (std::size_t i = 0; i < result.words_.size() && i < other.words_.size(); ++i) result.words_[i] &= ~other.words_[i];
  while (!result.words_.empty() && result.words_.back() == 0) result.words_.pop_back();
  return result;
}

bool CpuSet::operator==(const CpuSet& other) const { return words_ == other.words_; }

}  // namespace thole::model
