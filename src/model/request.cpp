#include "model/request.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace thole::model {

const char* to_string(Beside beside) {
  switch (beside) {
    case Beside::none: return "none";
    case Beside::mine: return "mine";
    case Beside::any: return "any";
  }
  return "none";
}

const char* to_string(Pick pick) {
  switch (pick) {
    case Pick::pack: return "pack";
    case Pick::first: return "first";
    case Pick::last: return "last";
    case Pick::random: return "random";
    case Pick::load: return "load";
    case Pick::memory: return "memory";
  }
  return "pack";
}

std::optional<Beside> parse_beside(std::string_view text) {
  for (Beside beside : {Beside::none, Beside::mine, Beside::any})
    if (text == to_string(beside)) return beside;
  return std::nullopt;
}

std::optional<Pick> parse_pick(std::string_view text) {
  for (Pick pick : {Pick::pack, Pick::first, Pick::last, Pick::random, Pick::load, Pick::memory})
    if (text == to_string(pick)) return pick;
  return std::nullopt;
}

const char* to_string(Shape shape) {
  switch (shape) {
    case Shape::collective: return "collective";
    case Shape::pairwise: return "pairwise";
    case Shape::independent: return "independent";
  }
  return "collective";
}

std::optional<Shape> parse_shape(std::string_view text) {
  for (Shape shape : {Shape::collective, Shape::pairwise, Shape::independent})
    if (text == to_string(shape)) return shape;
  return std::nullopt;
}

Terms Request::terms() const {
  const auto permille = [](std::optional<double> percent) {
    return static_cast<std::uint16_t>(std::ceil(std::clamp(percent.value_or(50), 0.0, 100.0) * 10));
  };
  return {gpus, share, share_with == ShareWith::any, trust_claims, beside, permille(max_load_percent),
          permille(max_memory_percent), memory_mib.value_or(0), time, leave};
}

std::string Request::describe() const {
  std::string what = model.empty() ? (gpus == 1 ? "GPU" : "GPUs") : model;
  std::string text = fmt::format("{} {}", gpus, what);
  if (!on.empty()) text += " on " + join(on, ",");
  if (!not_on.empty()) text += ", not " + join(not_on, ",");
  if (share) text += memory_mib ? fmt::format(", shared, {} each", format_mib(*memory_mib)) : ", shared";
  else if (memory_mib) text += fmt::format(", {} free", format_mib(*memory_mib));
  if (time) text += ", for " + format_duration(*time);
  return text;
}

}  // namespace thole::model
