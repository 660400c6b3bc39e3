// Items of a sweep from text: the rows of a CSV file, or the lines of any file, one task each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/job_items.hpp"

namespace thole::plan {

struct ReadItems {
  std::vector<std::string> columns;              // names of the variables
  model::Items items;
};

// RFC 4180: the first row names the variables, cells may stand in double quotes and then hold separators and line ends; \r\n or
// \n; empty lines are left out. A tab separates where the first row has one and no comma. Throws Error(usage) with `name`:line.
ReadItems parse_csv(std::string_view text, const std::string& name);

// One item a line, in the one column "line"; empty lines are left out.
ReadItems parse_lines(std::string_view text, const std::string& name);

}  // namespace thole::plan
