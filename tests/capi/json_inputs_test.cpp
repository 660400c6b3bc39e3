// What a mistaken caller passes to the C ABI. Every JSON input with a wrong value at every position: null, other types, numbers
// beyond all bounds, deep nesting, texts that are no text, and what is no JSON at all. Every pointer: NULL. Each call answers
// or tells an error; none ends the program, and none is an internal error. The header itself tells whether all is tried.
#include <sys/wait.h>
#include <thole/thole.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
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

// The document with `value` at one position of it: every member and element at every depth, and the whole.
void at_every_position(const json& document, const std::function<void(const std::string&)>& with, const std::string& value) {
  const json mark = "@here@";
  std::vector<json::json_pointer> positions{json::json_pointer()};
  const json flat = document.flatten();
  for (const auto& [path, leaf] : flat.items())
    for (json::json_pointer one(path); !one.empty(); one = one.parent_pointer()) positions.push_back(one);
  for (const auto& position : positions) {
    json changed = document;
    changed[position] = mark;
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

class CApi : public testing::Test {
 public:
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
    claim_ = thole_claim_gpus(machine_, R"({"gpus": 2, "on": ["6", "7"]})", 0, -1, nullptr);
    ASSERT_TRUE(claim_);
  }
  void TearDown() override {
    thole_claim_release(claim_);
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
    EXPECT_LT(std::strlen(thole_error_text(error)), 5000u) << text.substr(0, 300);
    thole_error_free(error);
  }

  // Understood, at the least: this host may lack the simulated CPUs.
  void try_bound(const std::function<bool(thole_error**)>& call) {
    thole_error* error = nullptr;
    if (!call(&error)) EXPECT_EQ(thole_error_code(error), THOLE_UNAVAILABLE) << thole_error_text(error);
    thole_error_free(error);
  }

  void spoil(const json& document, const Call& call) {
    try_bound([&](thole_error** error) { return call(document.dump().c_str(), error); });
    for (const std::string& value : wrong_values())
      at_every_position(document, [&](const std::string& text) { try_one(text, call); }, value);
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
  thole_claim* claim_ = nullptr;
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
                      {"try_ms", 50},
                      {"tell_fd", 2},
                      {"not_started", false},
                      {"command", "training"}};
const json bind = {{"mode", "node"}, {"threads", "auto"}, {"balanced", false}, {"strict", false}};


bool started(const char* binding, const char* directory, thole_error** error) {
  const char* const argv[] = {"/bin/true", nullptr};
  int end = -1;
  const int pid = thole_start(argv, nullptr, directory, binding, nullptr, -1, &end, error);
  if (pid < 0) return false;
  ::waitpid(pid, nullptr, 0);
  ::close(end);
  return true;
}

// ---- What the header declares ----

// "function.parameter"
using Names = std::set<std::string>;

struct Declared {
  Names pointers, texts;   // texts: those of them that are a `const char *`
};

std::string without_comments_and_directives(const std::string& text) {
  std::string left;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comment = text.find("/*", at);
    left += text.substr(at, comment - at);
    at = comment == std::string::npos ? text.size() : text.find("*/", comment) + 2;
  }
  std::istringstream lines(left);
  std::string code;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#")) code += line + " ";
  return code;
}

Declared declared() {
  std::ifstream file(THOLE_HEADER);
  const std::string code =
      without_comments_and_directives({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  Declared all;
  const std::string mark = "THOLE_EXPORT ", letters = "abcdefghijklmnopqrstuvwxyz_0123456789";
  for (std::size_t at = code.find(mark); at != std::string::npos; at = code.find(mark, at + 1)) {
    const std::size_t open = code.find('(', at), close = code.find(");", open);
    const std::size_t before = code.find_last_not_of(letters, open - 1);
    const std::string function = code.substr(before + 1, open - before - 1);
    std::istringstream parameters(code.substr(open + 1, close - open - 1));
    for (std::string one; std::getline(parameters, one, ',');) {
      one.erase(0, one.find_first_not_of(' '));
      const std::size_t name = one.find_last_not_of(letters) + 1;
      if (one.find('*') == std::string::npos) continue;
      all.pointers.insert(function + ":" + one.substr(name));
      if (one.substr(0, name) == "const char *") all.texts.insert(function + ":" + one.substr(name));
    }
  }
  return all;
}

// ---- JSON ----

struct Input {
  const char* parameter;
  json (*document)(CApi&);
  bool (*call)(CApi&, const char*, thole_error**);   // whether it answered
};

const Input inputs[] = {
    {"thole_open:options", [](CApi& test) { return json{{"machine", "dgx-a100"}, {"state_dir", test.folder_.string()}}; },
     [](CApi&, const char* text, thole_error** error) {
       thole_machine* machine = thole_open(text, error);
       thole_close(machine);
       return machine != nullptr;
     }},
    {"thole_plan:request", [](CApi&) { return request; },
     [](CApi& test, const char* text, thole_error** error) { return CApi::taken(thole_plan(test.machine_, text, error)); }},
    {"thole_claim_gpus:request", [](CApi&) { return request; },
     [](CApi& test, const char* text, thole_error** error) {
       thole_claim* claim = thole_claim_gpus(test.machine_, text, 0, -1, error);
       thole_claim_release(claim);
       return claim != nullptr;
     }},
    {"thole_plan_answer:request",
     [](CApi&) { return json{{"id", 1}, {"machine", "dgx-a100"}, {"gpus", 2}, {"bind", bind}}; },
     [](CApi& test, const char* text, thole_error** error) {
       return CApi::taken(thole_plan_answer(test.machine_, text, error));
     }},
    {"thole_bind:request",
     [](CApi&) { return json{{"local_rank", 0}, {"ranks", 2}, {"gpus_per_rank", 1}, {"on", {"0", "1"}}, {"bind", bind}}; },
     [](CApi& test, const char* text, thole_error** error) { return CApi::taken(thole_bind(test.machine_, text, error)); }},
    {"thole_claim_ranks:request",
     [](CApi& test) {
       const char* const* uuids = thole_claim_uuids(test.claim_);
       return json{{"ranks", {{uuids[0]}, {uuids[0], uuids[1]}}}, {"bind", bind}, {"anew", false}};
     },
     [](CApi& test, const char* text, thole_error** error) {
       return CApi::taken(thole_claim_ranks(test.machine_, test.claim_, text, error));
     }},
    {"thole_start:binding",
     [](CApi&) { return json{{"cpus", "0"}, {"memory", "preferred"}, {"memory_nodes", {0}}, {"strict", false}}; },
     [](CApi&, const char* text, thole_error** error) { return started(text, nullptr, error); }},
};

class JsonInputs : public CApi, public testing::WithParamInterface<Input> {};

TEST_P(JsonInputs, WithAWrongValueAtEveryPosition) {
  const Input& input = GetParam();
  spoil(input.document(*this), [&](const char* text, thole_error** error) { return input.call(*this, text, error); });
}

INSTANTIATE_TEST_SUITE_P(, JsonInputs, testing::ValuesIn(inputs), [](const auto& info) {
  std::string name = info.param.parameter;
  return name.replace(name.find(':'), 1, "_");
});

// ---- Other texts ----

struct Text {
  const char* parameter;
  bool (*call)(const char*, thole_error**);
};

const Text texts[] = {
    {"thole_is_loaded:library", [](const char* text, thole_error**) { return thole_is_loaded(text) >= 0; }},
    {"thole_may_have_started:root", [](const char* text, thole_error**) { return thole_may_have_started(text) >= 0; }},
    {"thole_start:directory", [](const char* text, thole_error** error) { return started(nullptr, text, error); }},
};

TEST_F(CApi, TextsThatNameNothing) {
  for (const Text& one : texts)
    for (const std::string& text : {std::string(), std::string("/"), std::string("\xff\xfe\x1b]0;x"), std::string("../.."),
                                    std::string("%n%s"), std::string(4000, 'a')}) {
      SCOPED_TRACE(one.parameter);
      try_one(text, [&](const char* given, thole_error** error) { return one.call(given, error); });
    }
}

TEST_F(CApi, NoTextOfTheHeaderIsForgotten) {
  Names tried;
  for (const Input& input : inputs) tried.insert(input.parameter);
  for (const Text& text : texts) tried.insert(text.parameter);
  EXPECT_EQ(tried, declared().texts);
}

// ---- NULL ----

TEST_F(CApi, NothingAtAll) {
  Names tried;
  // Where it is asked for: an error, also for who does not want to hear of it.
  const auto refused = [&](const std::string& parameter, const std::function<bool(thole_error**)>& call) {
    SCOPED_TRACE(parameter);
    thole_error* error = nullptr;
    EXPECT_FALSE(call(&error));
    EXPECT_EQ(thole_error_code(error), THOLE_USAGE) << thole_error_text(error);
    thole_error_free(error);
    EXPECT_FALSE(call(nullptr));
    tried.insert({parameter, parameter.substr(0, parameter.find(':')) + ":error"});
  };
  const auto answered = [&](const std::string& parameter, bool well) {
    EXPECT_TRUE(well) << parameter;
    tried.insert(parameter);
  };
  const char* const argv[] = {"/bin/true", nullptr};
  int end = -1;

  answered("thole_error_code:error", thole_error_code(nullptr) == THOLE_OK);
  answered("thole_error_text:error", std::string(thole_error_text(nullptr)) == "no error");
  answered("thole_error_message:error", std::string(thole_error_message(nullptr)).empty());
  answered("thole_error_object:error", std::string(thole_error_object(nullptr)).empty());
  answered("thole_error_hint:error", std::string(thole_error_hint(nullptr)).empty());
  answered("thole_error_reason:error", std::string(thole_error_reason(nullptr)).empty());
  answered("thole_error_errno:error", thole_error_errno(nullptr) == 0);
  answered("thole_error_free:error", (thole_error_free(nullptr), true));
  answered("thole_free:text", (thole_free(nullptr), true));
  answered("thole_is_loaded:library", thole_is_loaded(nullptr) == 0);
  answered("thole_may_have_started:root", thole_may_have_started(nullptr) == thole_may_have_started(""));

  thole_machine* opened = thole_open(nullptr, nullptr);
  answered("thole_open:options", opened != nullptr);
  thole_close(opened);
  answered("thole_open:error", thole_open("[]", nullptr) == nullptr);
  answered("thole_close:machine", (thole_close(nullptr), true));
  refused("thole_snapshot:machine", [](thole_error** error) { return taken(thole_snapshot(nullptr, error)); });
  refused("thole_plan:machine", [](thole_error** error) { return taken(thole_plan(nullptr, nullptr, error)); });
  answered("thole_plan:request", taken(thole_plan(machine_, nullptr, nullptr)));
  refused("thole_plan_answer:machine", [](thole_error** error) { return taken(thole_plan_answer(nullptr, "{}", error)); });
  refused("thole_plan_answer:request", [&](thole_error** error) { return taken(thole_plan_answer(machine_, nullptr, error)); });
  refused("thole_bind:machine", [](thole_error** error) { return taken(thole_bind(nullptr, nullptr, error)); });
  try_bound([&](thole_error** error) { return taken(thole_bind(machine_, nullptr, error)); });
  tried.insert("thole_bind:request");

  refused("thole_claim_gpus:machine",
          [](thole_error** error) { return thole_claim_gpus(nullptr, nullptr, 0, -1, error) != nullptr; });
  thole_claim* claim = thole_claim_gpus(machine_, nullptr, 0, -1, nullptr);
  answered("thole_claim_gpus:request", claim != nullptr);
  thole_claim_release(claim);
  answered("thole_claim_json:claim", std::string(thole_claim_json(nullptr)).empty());
  answered("thole_claim_id:claim", std::string(thole_claim_id(nullptr)).empty());
  answered("thole_claim_uuids:claim", *thole_claim_uuids(nullptr) == nullptr);
  answered("thole_claim_environment:claim", *thole_claim_environment(nullptr) == nullptr);
  answered("thole_claim_set_environment:claim", thole_claim_set_environment(nullptr) == -1);
  answered("thole_claim_release:claim", (thole_claim_release(nullptr), true));
  refused("thole_claim_ranks:machine",
          [&](thole_error** error) { return taken(thole_claim_ranks(nullptr, claim_, "{}", error)); });
  refused("thole_claim_ranks:claim",
          [&](thole_error** error) { return taken(thole_claim_ranks(machine_, nullptr, "{}", error)); });
  refused("thole_claim_around:machine", [&](thole_error** error) { return taken(thole_claim_around(nullptr, error)); });
  refused("thole_claim_ranks:request",
          [&](thole_error** error) { return taken(thole_claim_ranks(machine_, claim_, nullptr, error)); });

  refused("thole_start:argv", [&](thole_error** error) {
    return thole_start(nullptr, nullptr, nullptr, nullptr, nullptr, -1, &end, error) >= 0;
  });
  refused("thole_start:end", [&](thole_error** error) {
    return thole_start(argv, nullptr, nullptr, nullptr, nullptr, -1, nullptr, error) >= 0;
  });
  const bool runs = started(nullptr, nullptr, nullptr);
  for (const char* parameter : {"environment", "directory", "binding", "descriptors"})
    answered(std::string("thole_start:") + parameter, runs);

  EXPECT_EQ(tried, declared().pointers) << "a function of the header is not tried, or not there any more";
}

}  // namespace
