// Root takes units back (`thole init --take-back`) from under those who have claimed them: their own descriptors tell.
#pragma once

#include <string>
#include <vector>

#include "app/claim/acquire.hpp"

namespace thole::app {

// "GPU 3 was taken back by root: others may have claimed it since", for each such unit of the claim: the file that it has
// locked was deleted, and another has its name.
std::vector<std::string> taken_back(const Acquired& acquired);

// For what is about to begin there. Throws DriverTrouble.
void refuse_taken_back(const Acquired& acquired);

}  // namespace thole::app
