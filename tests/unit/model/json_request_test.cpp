#include <gtest/gtest.h>

#include "base/error.hpp"
#include "model/json.hpp"

namespace thole::model {
namespace {

Request read(const char* text) { return request_from_json(parse_json(text, "request")); }

TEST(JsonRequest, ReadsEveryField) {
  const Request request =
      read(R"({"gpus": 2, "on": ["0", "GPU-1"], "not": ["3"], "model": "A100", "memory_mib": 8192, "share": true,
    "share_with": "any", "beside": "mine", "max_load_percent": 20, "max_memory_percent": 30.5, "pick": "last",
    "trust_claims": true})");
  EXPECT_EQ(request.gpus, 2u);
  EXPECT_EQ(request.on, (std::vector<std::string>{"0", "GPU-1"}));
  EXPECT_EQ(request.not_on, std::vector<std::string>{"3"});
  EXPECT_EQ(request.model, "A100");
  EXPECT_EQ(request.memory_mib, 8192u);
  EXPECT_TRUE(request.share);
  EXPECT_EQ(request.share_with, ShareWith::any);
  EXPECT_EQ(request.beside, Beside::mine);
  EXPECT_EQ(request.max_load_percent, 20);
  EXPECT_EQ(request.max_memory_percent, 30.5);
  EXPECT_EQ(request.pick, Pick::last);
  EXPECT_TRUE(request.trust_claims);
}

TEST(JsonRequest, AbsentAndNullFieldsKeepTheDefaults) {
  Request defaults;
  defaults.gpus = 4;
  defaults.pick = Pick::first;
  const Request request = request_from_json(parse_json(R"({"pick": null})", "request"), defaults);
  EXPECT_EQ(request.gpus, 4u);
  EXPECT_EQ(request.pick, Pick::first);
}

TEST(JsonRequest, NamesTheMistake) {
  struct Case { const char* text; const char* message; };
  const Case cases[] = {
      {"[]", "request"},
      {R"({"gpu": 1})", "request.gpu: no such field"},
      {R"({"gpus": -1})", "request.gpus"},
      {R"({"gpus": 1.5})", "request.gpus"},
      {R"({"gpus": 70000})", "request.gpus"},
      {R"({"on": "0"})", "request.on"},
      {R"({"on": [0]})", "request.on[0]"},
      {R"({"pick": "best"})", "request.pick"},
      {R"({"share": 1})", "request.share"},
      {R"({"max_load_percent": 101})", "request.max_load_percent"},
      {R"({"share": true})", "request.memory_mib"},
  };
  for (const Case& c : cases) {
    try {
      read(c.text);
      ADD_FAILURE() << c.text << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage) << c.text;
      EXPECT_NE(error.full().find(c.message), std::string::npos) << c.text << " gave " << error.full();
    }
  }
}

TEST(JsonRequest, AMisspeltFieldIsAnsweredWithTheNearest) {
  try {
    read(R"({"memory_mb": 1})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("memory_mib"), std::string::npos);
  }
}

}  // namespace
}  // namespace thole::model
