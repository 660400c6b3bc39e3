// Values on their way into JSON, where null stands for what is not known.
#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "model/json.hpp"
#include "model/machine.hpp"

namespace thole::model {

template <class T>
Json or_null(const std::optional<T>& value) { return value ? Json(*value) : Json(nullptr); }

inline Json or_null(const std::optional<CpuSet>& cpus) { return cpus ? Json(cpus->to_string()) : Json(nullptr); }
inline Json or_null(const std::optional<PciAddress>& pci) { return pci ? Json(pci->to_string()) : Json(nullptr); }
inline Json or_null(const std::optional<WallTime>& time) { return time ? Json(format_iso(*time)) : Json(nullptr); }
inline Json or_null(const std::optional<Seconds>& duration) { return duration ? Json(duration->count()) : Json(nullptr); }
inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace thole::model
