#include "host/gpu/nvidia/accounts.hpp"

#include <algorithm>
#include <chrono>

namespace thole::host::nvidia {

namespace {

constexpr std::uint32_t most_accounts = 65'536;

// The ring can grow between asking for its length and reading it, so it is asked with room to spare, a bounded number of times.
Answer<std::vector<std::uint32_t>> read_pids(const Functions& call, abi::Device device) {
  using Pids = Answer<std::vector<std::uint32_t>>;
  std::vector<std::uint32_t> pids(4096);
  abi::Return rc = abi::insufficient_size;
  while (rc == abi::insufficient_size && pids.size() <= most_accounts) {
    auto count = static_cast<std::uint32_t>(pids.size());
    rc = call.accounting_pids(device, &count, pids.data());
    if (rc == abi::ok) {
      pids.resize(std::min<std::size_t>(count, pids.size()));
      return pids;
    }
    pids.resize(std::max<std::size_t>(count, pids.size()) * 2);
  }
  return Pids::refused(rc);
}

}  // namespace

RawAccounts read_accounts(const Functions& call, const std::string& uuid, std::uint64_t since_us) {
  using List = Answer<std::vector<RawAccount>>;
  if (!call.handle_by_uuid || !call.accounting_pids || !call.accounting_stats) return {uuid, List::refused(abi::absent)};
  abi::Device device = nullptr;
  if (abi::Return rc = call.handle_by_uuid(uuid.c_str(), &device); rc != abi::ok) return {uuid, List::refused(rc)};
  const auto pids = read_pids(call, device);
  if (!pids) return {uuid, List::refused(pids.rc)};
  std::vector<RawAccount> list;
  for (std::uint32_t pid : pids.value) {
    abi::AccountingStats stats{};
    const abi::Return rc = call.accounting_stats(device, pid, &stats);
    if (rc == abi::not_found) continue;                    // it has dropped out of the ring since
    if (rc != abi::ok) return {uuid, List::refused(rc)};
    if (stats.start_us >= since_us) list.push_back({pid, stats.max_memory, stats.start_us});
  }
  return {uuid, list};
}

std::map<std::string, bool> accounting(const RawReading& reading) {
  std::map<std::string, bool> kept;
  for (const auto& [index, use] : reading.uses) {
    const auto identity = reading.identities.find(index);
    if (identity == reading.identities.end() || !identity->second.uuid) continue;
    const bool mig = use.mig_mode && use.mig_mode.value == 1;
    if (mig) kept[identity->second.uuid.value] = false;
    else if (use.accounting.rc != abi::not_asked)
      kept[identity->second.uuid.value] = use.accounting && use.accounting.value == abi::accounting_on;
  }
  return kept;
}

std::optional<std::uint64_t> peak_memory_mib(std::span<const RawAccounts> all, WallTime from, WallTime to) {
  std::optional<std::uint64_t> largest;
  for (const RawAccounts& gpu : all) {
    if (!gpu.list) return std::nullopt;
    for (const RawAccount& account : gpu.list.value) {
      if (account.started_us < in_us(from) || account.started_us > in_us(to) + 999) continue;   // `to` is a whole millisecond
      if (account.peak_memory == abi::not_available) return std::nullopt;
      largest = std::max(largest.value_or(0), account.peak_memory);
    }
  }
  if (!largest) return std::nullopt;
  constexpr std::uint64_t mib = 1u << 20;
  return *largest / mib + (*largest % mib != 0);
}

std::uint64_t in_us(WallTime time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(std::chrono::microseconds(time.time_since_epoch()).count(), 0));
}

}  // namespace thole::host::nvidia
