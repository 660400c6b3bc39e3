// Every JSON input of the C ABI with a wrong value at every place: null, other types, numbers beyond all bounds, deep nesting,
// texts that are no text, and what is no JSON at all. Each call answers or tells an error; none ends the program, and none is
// an internal error.
#include <sys/wait.h>
#include <thole/thole.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using nlohmann::json;

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// What stands where another value belongs, as text, so that numbers no type holds can stand there too.
std::vector<std::string> wrong_values() {
  std::vector<std::string> values = {"null",
                                     "true",
                                     "false",
                                     "0",
                                     "-0",
                                     "1",
                                     "-1",
                                     "2",
                                     "1.5",
                                     "1e308",
                                     "1e999",
                                     "2147483647",
                                     "2147483648",
                                     "4294967296",
                                     "9223372036854775807",
                                     "9223372036854775808",
                                     "18446744073709551615",
                                     "18446744073709551616",
                                     "-9223372036854775809",
                                     R"("")",
                                     R"("x")",
                                     R"("\u0000")",
                                     R"("\ud800")",
                                     R"("\u001b]0;x\u0007")",
                                     "\"\xff\xfe\"",
                                     "[]",
                                     "{}",
                                     "[null]",
                                     "[[null]]",
                                     R"({"x":null})",
                                     R"({"":[]})",
                                     R"([1,"a",{}])",
                                     "NaN",
                                     "-Infinity",
                                     "",
                                     "[",
                                     R"({"a":)",
                                     "01",
                                     "'x'"};
  values.push_back("\"" + std::string(100000, 'a') + "\"");
  values.push_back(nested(1000));
  values.push_back(nested(100000));
  return values;
}

// The document with `value` at one place of it: every member and element at every depth, and the whole.
void at_every_place(const json& document, const std::function<void(const std::string&)>& with, const std::string& value) {
  const json mark = "@here@";
  std::vector<json::json_pointer> places{json::json_pointer()};
  const json flat = document.flatten();
  for (const auto& [path, leaf] : flat.items())
    for (json::json_pointer place(path); !place.empty(); place = place.parent_pointer()) places.push_back(place);
  for (const auto& place : places) {
    json changed = document;
    changed[place] = mark;
    std::string text = changed.dump();
    const auto at = text.find(mark.dump());
    with(text.replace(at, mark.dump().size(), value));
  }
}

std::string now_tried;   // told by the handler when the program is about to die

void tell(int) {
  const std::string head = "died of: " + now_tried.substr(0, 300) + "\n";
  if (::write(STDERR_FILENO, head.data(), head.size()) < 0) ::_exit(3);
  ::_exit(2);
}

class JsonInputs : public testing::Test {
 protected:
  void SetUp() override {
    static char stack[1 << 16];   // the program's own may be the one that ran out
    const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    ::sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_handler = tell;
    action.sa_flags = SA_ONSTACK;
    for (int fatal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) ::sigaction(fatal, &action, nullptr);
    folder_ = std::filesystem::temp_directory_path() / ("thole-json-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("THOLE_STATE_DIR", folder_.c_str(), 1);
    ::setenv("THOLE_MACHINE", "dgx-a100", 1);
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    machine_ = thole_open(nullptr, nullptr);
    ASSERT_TRUE(machine_);
  }
  void TearDown() override {
    thole_close(machine_);
    std::filesystem::remove_all(folder_);
  }

  using Call = std::function<bool(const char*, thole_error**)>;  // whether it answered

  void try_one(const std::string& text, const Call& call) {
    now_tried = text;
    thole_error* error = nullptr;
    const bool answered = call(text.c_str(), &error);
    EXPECT_EQ(answered, error == nullptr) << text.substr(0, 300);
    if (!error) return;
    EXPECT_NE(thole_error_code(error), THOLE_INTERNAL) << text.substr(0, 300) << "\n" << thole_error_text(error);
    EXPECT_STRNE(thole_error_text(error), "") << text.substr(0, 300);
    EXPECT_LT(std::strlen(thole_error_text(error)), 4000u) << text.substr(0, 300);
    thole_error_free(error);
  }

  void spoil(const json& document, const Call& call) {
    thole_error* error = nullptr;
    if (!call(document.dump().c_str(), &error))   // understood, at the least: this host may lack the simulated CPUs
      EXPECT_EQ(thole_error_code(error), THOLE_UNAVAILABLE) << "unspoilt: " << thole_error_text(error);
    thole_error_free(error);
    for (const std::string& value : wrong_values())
      at_every_place(document, [&](const std::string& text) { try_one(text, call); }, value);
    for (const auto& [name, unused] : document.items()) {   // each member alone, and none
      try_one(json{{name, document[name]}}.dump(), call);
      try_one(json{{name, nullptr}}.dump(), call);
    }
    try_one("{} trailing", call);
    try_one(document.dump() + document.dump(), call);
  }

  static bool taken(char* text) {
    const bool is_text = text != nullptr;
    thole_free(text);
    return is_text;
  }

  thole_machine* machine_ = nullptr;
  std::filesystem::path folder_;
};

const json request = {{"gpus", 1},
                      {"on", {"0", "1"}},
                      {"not", {"2"}},
                      {"model", "A100"},
                      {"memory_mib", 1024},
                      {"share", false},
                      {"beside", "none"},
                      {"pick", "pack"},
                      {"order", {"1"}},
                      {"shape", "collective"},
                      {"max_load_percent", 50},
                      {"max_memory_percent", 50},
                      {"trust_claims", false},
                      {"ids", "auto"},
                      {"not_started", false},
                      {"command", "training"}};
const json bind = {{"mode", "node"}, {"threads", "auto"}, {"balanced", false}, {"strict", false}};

TEST_F(JsonInputs, OfOpening) {
  spoil({{"machine", "dgx-a100"}, {"state_dir", folder_.string()}}, [](const char* text, thole_error** error) {
    thole_machine* machine = thole_open(text, error);
    thole_close(machine);
    return machine != nullptr;
  });
}

TEST_F(JsonInputs, OfPlanning) {
  spoil(request, [&](const char* text, thole_error** error) { return taken(thole_plan(machine_, text, error)); });
}

TEST_F(JsonInputs, OfClaiming) {
  spoil(request, [&](const char* text, thole_error** error) {
    thole_claim* claim = thole_claim_gpus(machine_, text, 0, -1, error);
    thole_claim_release(claim);
    return claim != nullptr;
  });
}

TEST_F(JsonInputs, OfAPlanOfABatch) {
  const json line = {{"id", 1}, {"machine", "dgx-a100"}, {"gpus", 2}, {"bind", bind}};
  spoil(line, [&](const char* text, thole_error** error) { return taken(thole_plan_answer(machine_, text, error)); });
}

TEST_F(JsonInputs, OfBinding) {
  const json ranks = {{"local_rank", 0}, {"ranks", 2}, {"gpus_per_rank", 1}, {"on", {"0", "1"}}, {"bind", bind}};
  spoil(ranks, [&](const char* text, thole_error** error) { return taken(thole_bind(machine_, text, error)); });
}

TEST_F(JsonInputs, OfRanks) {
  thole_claim* claim = thole_claim_gpus(machine_, R"({"gpus": 2})", 0, -1, nullptr);
  ASSERT_TRUE(claim);
  const char* const* uuids = thole_claim_uuids(claim);
  const json ranks = {{"ranks", {{uuids[0]}, {uuids[0], uuids[1]}}}, {"bind", bind}};
  spoil(ranks, [&](const char* text, thole_error** error) { return taken(thole_claim_ranks(machine_, claim, text, error)); });
  thole_claim_release(claim);
}

TEST_F(JsonInputs, OfStarting) {
  const json binding = {{"cpus", "0"}, {"memory", "preferred"}, {"memory_nodes", {0}}, {"strict", false}};
  const char* const argv[] = {"/bin/true", nullptr};
  spoil(binding, [&](const char* text, thole_error** error) {
    int end = -1;
    const int pid = thole_start(argv, nullptr, nullptr, text, nullptr, -1, &end, error);
    if (pid < 0) return false;
    ::waitpid(pid, nullptr, 0);
    ::close(end);
    return true;
  });
}

// What a mistaken caller passes: nothing where a handle, a text or a place for an answer is asked for.
TEST_F(JsonInputs, NothingAtAll) {
  const auto refused = [&](const std::function<bool(thole_error**)>& call) {
    thole_error* error = nullptr;
    EXPECT_FALSE(call(&error));
    EXPECT_EQ(thole_error_code(error), THOLE_USAGE) << thole_error_text(error);
    thole_error_free(error);
    EXPECT_FALSE(call(nullptr));
  };
  const char* const argv[] = {"/bin/true", nullptr};
  thole_claim* claim = thole_claim_gpus(machine_, nullptr, 0, -1, nullptr);
  ASSERT_TRUE(claim);
  refused([](thole_error** error) { return taken(thole_snapshot(nullptr, error)); });
  refused([](thole_error** error) { return taken(thole_plan(nullptr, nullptr, error)); });
  refused([](thole_error** error) { return taken(thole_plan_answer(nullptr, "{}", error)); });
  refused([&](thole_error** error) { return taken(thole_plan_answer(machine_, nullptr, error)); });
  refused([](thole_error** error) { return taken(thole_bind(nullptr, nullptr, error)); });
  refused([](thole_error** error) { return thole_claim_gpus(nullptr, nullptr, 0, -1, error) != nullptr; });
  refused([&](thole_error** error) { return taken(thole_claim_ranks(machine_, claim, nullptr, error)); });
  refused([&](thole_error** error) { return taken(thole_claim_ranks(machine_, nullptr, "{}", error)); });
  refused([&](thole_error** error) { return taken(thole_claim_ranks(nullptr, claim, "{}", error)); });
  refused(
      [](thole_error** error) { return thole_start(nullptr, nullptr, nullptr, nullptr, nullptr, -1, nullptr, error) >= 0; });
  refused([&](thole_error** error) { return thole_start(argv, nullptr, nullptr, nullptr, nullptr, -1, nullptr, error) >= 0; });
  thole_claim_release(claim);
  EXPECT_STREQ(thole_claim_json(nullptr), "");
  EXPECT_STREQ(thole_claim_id(nullptr), "");
  EXPECT_EQ(*thole_claim_uuids(nullptr), nullptr);
  EXPECT_EQ(*thole_claim_environment(nullptr), nullptr);
  EXPECT_EQ(thole_claim_set_environment(nullptr), -1);
  EXPECT_EQ(thole_is_loaded(nullptr), 0);
  EXPECT_EQ(thole_may_have_started(nullptr), thole_may_have_started(""));
  thole_claim_release(nullptr);
  thole_close(nullptr);
  thole_error_free(nullptr);
  thole_free(nullptr);
}

}  // namespace
