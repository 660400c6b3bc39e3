// The client's side of a claim's socket (protocol: door.hpp): one question, one answer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/control/message.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

// Throws Error(unavailable) when nobody keeps the claim, the keeper refuses, or it does not answer within `patience`; sooner
// of one that is stopped. The text of the answer is without "ok ". What `check` throws of the descriptors that came along is
// thrown.
Answer ask_keeper(const port::ClaimAddress& claim, std::string_view question, Millis patience,
                  const port::CheckLocks& check = {});

// As port::ClaimControl has it.
std::string ways_to_end(const std::string& claim, uid_t owner);

// "id=… pid=… kind=… until=…"; throws Error(internal) when it is not that.
port::ClaimAbout parse_about(std::string_view text);

// "PID MS|never NAME"; nothing when it is not that.
std::optional<port::Ending> parse_ending(std::string_view text);

}  // namespace thole::host
