// From the prose's few marks to roff: paragraphs, "* " items, "## Heading", indented lines as they are, `words` and
// **words** in bold.
#pragma once

#include <string>
#include <string_view>

namespace thole::pages {

std::string roff(std::string_view prose);
std::string escape(std::string_view text);      // one line of text as roff, dashes as they are typed
std::string bold_words(std::string_view text);  // one line of prose

}  // namespace thole::pages
