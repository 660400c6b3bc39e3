// The links of a picture: from GPU to GPU as arcs, as wide as there are links,
// or as lines into a box that stands for NVSwitches.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/show/joins.hpp"
#include "cli/show/svg.hpp"

namespace thole::cli {

struct LinkPicture {
  struct Sample {
    std::string says;  // "NVLink × 12"
    std::string_view color;
    double width = 1;
  };
  double right = 0;             // where it ends
  std::vector<Sample> samples;  // one of each kind and number, for the legend
};

// Draws to the right of `x`, where the boxes of all GPUs end. `spots`: by GPU; one for all parts of a GPU. `fabric`: NVLinks go
// through switches.
LinkPicture draw_links(Svg& svg, const std::map<std::size_t, Svg::Box>& spots, const app::Joins& joins, double x,
                       bool fabric);

}  // namespace thole::cli
