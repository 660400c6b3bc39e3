// What the verbs that name claims find them by.
#pragma once

#include "app/claim/holding.hpp"
#include "cli/context.hpp"

namespace thole::cli {

app::ClaimSearch claim_search(Context& context);

}  // namespace thole::cli
