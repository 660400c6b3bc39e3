#include "cli/line/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "cli/line/submit_wish.hpp"
#include "support/said.hpp"

using namespace thole;
using namespace thole::cli;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

// The words of a line, split at blanks.
Invocation parse_line(std::string_view line, const model::Request& defaults = {}) {
  std::vector<std::string_view> words;
  for (std::string_view word : split(line, ' '))
    if (!word.empty()) words.push_back(word);
  return parse(words, defaults);
}

SubmitOptions parse_submit(std::string_view line) { return parse_line(line).own.as<SubmitOptions>(); }

std::string mistake_in(std::string_view line) {
  try {
    parse_line(line);
  } catch (const Error& error) {
    EXPECT_EQ(exit_status(error.code()), 64) << line;
    return error.full();
  }
  ADD_FAILURE() << "accepted: " << line;
  return "";
}

}  // namespace

TEST(Parse, NoWordsNameNoVerb) { EXPECT_EQ(parse_line("").verb, nullptr); }

TEST(Parse, ACommandIsTheSameWithAndWithoutDashes) {
  for (std::string_view line : {"run python t.py -x", "run -- python t.py -x"}) {
    Invocation run = parse_line(line);
    EXPECT_THAT(run.words, ElementsAre("python", "t.py", "-x")) << line;
    EXPECT_EQ(run.verb->name, "run");
  }
}

TEST(Parse, OptionsEndAtTheCommand) {
  Invocation run = parse_line("run -g 2 python -g 5 --json --help");
  EXPECT_EQ(run.request.gpus, 2u);
  EXPECT_THAT(run.words, ElementsAre("python", "-g", "5", "--json", "--help"));
  EXPECT_FALSE(run.global.json);
  EXPECT_FALSE(run.global.help);
}

TEST(Parse, DashesWithinACommandStay) { EXPECT_THAT(parse_line("run python -- x").words, ElementsAre("python", "--", "x")); }

TEST(Parse, OneValueHasFourSpellings) {
  for (std::string_view line : {"run -g 2 x", "run -g2 x", "run --gpus 2 x", "run --gpus=2 x", "run -g=2 x"})
    EXPECT_EQ(parse_line(line).request.gpus, 2u) << line;
}

TEST(Parse, GlobalOptionsStandBeforeOrAfterTheVerb) {
  for (std::string_view line :
       {"--machine dgx-a100 --json status 3", "status --machine=dgx-a100 3 --json", "status 3 --json --machine dgx-a100"}) {
    Invocation status = parse_line(line);
    EXPECT_EQ(status.global.machine, "dgx-a100") << line;
    EXPECT_TRUE(status.global.json) << line;
    EXPECT_THAT(status.words, ElementsAre("3")) << line;
  }
}

TEST(Parse, FlagsCluster) {
  Invocation run = parse_line("run -qvg3 x");
  EXPECT_TRUE(run.global.quiet);
  EXPECT_TRUE(run.global.verbose);
  EXPECT_EQ(run.request.gpus, 3u);
}

TEST(Parse, TheLaterOfTwoWins) {
  EXPECT_EQ(parse_line("run --wait 1h --no-wait x").request.wait, Seconds{0});
  EXPECT_EQ(parse_line("run --no-wait --wait 1h x").request.wait, Seconds{3600});
}

TEST(Parse, ARequestIsReadWhole) {
  model::Request request =
      parse_line(
          "run -g4 --on 0,GPU-5c2f,0000:07:00.0 --not 0:1 --model A100 --memory 20G --beside any --max-load 20% "
          "--max-memory 0.3 --pick memory --trust-claims --wait 30m --time 1h30m x")
          .request;
  EXPECT_EQ(request.gpus, 4u);
  EXPECT_THAT(request.on, ElementsAre("0", "GPU-5c2f", "0000:07:00.0"));
  EXPECT_THAT(request.not_on, ElementsAre("0:1"));
  EXPECT_EQ(request.model, "A100");
  EXPECT_EQ(request.memory_mib, 20480u);
  EXPECT_EQ(request.beside, model::Beside::any);
  EXPECT_EQ(request.max_load_percent, 20.0);
  EXPECT_EQ(request.max_memory_percent, 30.0);
  EXPECT_EQ(request.pick, model::Pick::memory);
  EXPECT_TRUE(request.trust_claims);
  EXPECT_EQ(request.wait, Seconds{1800});
  EXPECT_EQ(request.time, Seconds{5400});
}

TEST(Parse, SharersStandTheirOwnProcessesUnlessToldOtherwise) {
  EXPECT_EQ(parse_line("run --share --memory 8G x").request.beside, model::Beside::mine);
  EXPECT_EQ(parse_line("run --share --memory 8G --beside none x").request.beside, model::Beside::none);
}

TEST(Parse, OptionsOverrideTheDefaults) {
  model::Request defaults;
  defaults.wait = Seconds{60};
  defaults.pick = model::Pick::last;
  EXPECT_EQ(parse_line("run x", defaults).request.wait, Seconds{60});
  EXPECT_EQ(parse_line("run --no-wait x", defaults).request.wait, Seconds{0});
  EXPECT_EQ(parse_line("run --pick first x", defaults).request.pick, model::Pick::first);
}

TEST(Parse, WordsAboutBindingAreWishes) {
  const model::BindWishes wishes = parse_line(
                                       "run --bind core:4 --mem bind:0,2-3 --smt one --nic all --threads auto --reserve 0,64 "
                                       "--lend --balanced --strict x")
                                       .binding;
  const model::BindOptions options = wishes.over(model::BindOptions::for_command());
  EXPECT_EQ(options.mode, model::BindMode::core);
  EXPECT_EQ(options.cores, 4u);
  EXPECT_EQ(options.memory, model::MemoryPolicy::bind);
  EXPECT_THAT(*options.memory_nodes, ElementsAre(0, 2, 3));
  EXPECT_EQ(options.smt, model::Smt::one);
  EXPECT_EQ(options.nic, model::NicMode::all);
  EXPECT_EQ(options.threads.mode, model::Threads::Mode::automatic);
  EXPECT_EQ(std::get<model::CpuSet>(options.reserve).to_string(), "0,64");
  EXPECT_TRUE(options.lend && options.balanced && options.strict);
}

TEST(Parse, WatchTakesATimeOnlyWhenOneFollows) {
  for (const char* line : {"status --watch", "status --watch 5", "status --watch=1m", "status -w5"}) {
    EXPECT_TRUE(parse_line(line).given("watch")) << line;
    EXPECT_THAT(parse_line(line).words, IsEmpty()) << line;
  }
  Invocation status = parse_line("status --watch GPU-5c2f");
  EXPECT_TRUE(status.given("watch"));
  EXPECT_THAT(status.words, ElementsAre("GPU-5c2f"));
}

TEST(Parse, FractionsOfSecondsAreTakenWhereverATimeIs) {
  for (const char* time : {"0.3s", "300ms", "0.3"}) {
    EXPECT_EQ(parse_line(fmt::format("run --wait {} true", time)).request.wait, Millis{300});
    EXPECT_EQ(parse_line(fmt::format("compat --wait {} true", time)).request.wait, Millis{300});
    EXPECT_NO_THROW(parse_line(fmt::format("wait --timeout {}", time)));
    EXPECT_NO_THROW(parse_line(fmt::format("status --watch={}", time)));
    EXPECT_EQ(parse_submit(fmt::format("submit --retry-pause {} true", time)).spec.retry.pause, Seconds{1});
    EXPECT_EQ(parse_submit(fmt::format("submit --patience {} true", time)).spec.patience, Seconds{1});
  }
  EXPECT_EQ(parse_line("run --time 1.5s true").request.time, Seconds{2}) << "a limit is not below what was said";
  EXPECT_THAT(thole::test::said([] { parse_line("run --time 1.5 true"); }), HasSubstr("seconds, minutes or hours?"));
}

TEST(Parse, ALimitThatIsRoundedUpIsTold) {
  EXPECT_THAT(parse_line("run --time 200ms true").remarks, ElementsAre("--time 200ms: 1s, for it counts whole seconds"));
  EXPECT_THAT(parse_line("map --timeout 1.5s true").remarks, ElementsAre("--timeout 1.5s: 2s, for it counts whole seconds"));
  EXPECT_THAT(parse_line("submit --patience 0.2s true").remarks, ElementsAre(HasSubstr("--patience 0.2s: 1s")));
  for (const char* line : {"run --time 2s true", "run --time 1h30m true", "run --wait 0.2s true", "wait --timeout 0.2s"})
    EXPECT_THAT(parse_line(line).remarks, IsEmpty()) << line;
}

TEST(Parse, NonsenseIsNoTimeAnywhere) {
  for (const char* option : {"run --wait=", "run --time=", "wait --timeout=", "submit --patience=", "submit --retry-pause="})
    for (const char* time : {"0.3.1s", "-0.3s", "0,3s", "1ms1s", "s"})
      EXPECT_THAT(thole::test::said([&] { parse_line(fmt::format("{}{} true", option, time)); }),
                  HasSubstr(fmt::format("expected a time such as 0.5s, 90s, 30m, 8h or 1h30m, got \"{}\"", time)));
}

TEST(Parse, HelpAsksForNothingElse) {
  EXPECT_TRUE(parse_line("run --help").global.help);
  EXPECT_TRUE(parse_line("extend -h").global.help);
  EXPECT_TRUE(parse_line("--version").global.version);
}

TEST(Parse, MachineryGetsItsWordsUntouched) {
  EXPECT_THAT(parse_line("__complete run --gp").words, ElementsAre("run", "--gp"));
}

struct Mistake {
  std::string_view line, says, hint;
};
class ParseMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ParseMistake, IsNamedWithItsCure) {
  const std::string text = mistake_in(GetParam().line);
  EXPECT_THAT(text, HasSubstr(GetParam().says));
  EXPECT_THAT(text, HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseMistake,
    testing::Values(
        Mistake{"satus", "unknown command \"satus\"", "did you mean status?"},
        Mistake{"python t.py", "unknown command \"python\"", "thole run"},
        Mistake{"run --gpu 2 x", "unknown option \"--gpu\"", "--on 2"},
        Mistake{"run --mem 20G x", "--mem: expected a memory policy, got \"20G\"", "--memory 20G"},
        Mistake{"run --mem bnd x", "--mem: \"bnd\"", "bind"}, Mistake{"run --mem bind: x", "--mem: \"bind:\"", "bind:NODES"},
        Mistake{"run --bind socket x", "--bind: \"socket\"", "package"},
        Mistake{"run --bind core:0 x", "got \"core:0\"", "core:N"},
        Mistake{"run --threads 0 x", "--threads: expected a number of 1 or more", ""},
        Mistake{"run --reserve first x", "--reserve: expected CPUs", "first-of-l3"},
        Mistake{"run --no-bind --strict x", "--no-bind leaves nothing", ""},
        Mistake{"bind", "a command or --pid missing", "thole bind ./app"},
        Mistake{"bind --pid 1 true", "exclude each other", ""},
        Mistake{"bind --pid 1 --mem bind", "cannot be set from outside", "thole run --mem"},
        Mistake{"bind --local-rank 2 --ranks 2 x", "ranks count from 0", ""},
        Mistake{"bind --ranks 0 x", "a number from 1", ""}, Mistake{"run -z x", "unknown option \"-z\"", "thole run --help"},
        Mistake{"-g 2 run x", "-g belongs after its command", "thole run -g 2 …"},
        Mistake{"--jsn status", "unknown option \"--jsn\"", "--json"},
        Mistake{"run -g two x", "-g: expected a number, got \"two\"", ""},
        Mistake{"run --gpus=-1 x", "--gpus: expected a number, got \"-1\"", ""},
        Mistake{"run --gpus= x", "--gpus needs a value", "--gpus N"}, Mistake{"run -g 99999 x", "a number up to", ""},
        Mistake{"run --json=yes x", "--json takes no value", ""}, Mistake{"run --on", "--on needs a value", ""},
        Mistake{"run --on --share x", "--on needs a value", ""}, Mistake{"run --on 0,,2 x", "separated by commas", ""},
        Mistake{"run --memory lots x", "--memory: expected a size", "20G"}, Mistake{"run --memory 0 x", "more than 0", ""},
        Mistake{"run --wait soon x", "--wait: expected a time", "30m"}, Mistake{"run --time 0 x", "longer than 0", ""},
        Mistake{"run --beside mime x", "--beside: \"mime\"", "mine"}, Mistake{"run --pick best x", "--pick: \"best\"", "pack"},
        Mistake{"run --max-load 120% --beside any x", "a percentage", ""},
        Mistake{"run --max-load 20% x", "go with --beside", ""},
        Mistake{"run --share x", "--share needs a memory budget", "--memory 8G"},
        Mistake{"run --share-with any x", "goes with --share", ""},
        Mistake{"run", "COMMAND [ARGUMENT...] missing", "thole run python"},
        Mistake{"run -g 2 --", "COMMAND [ARGUMENT...] missing", ""},
        Mistake{"claim python", "one word too many, \"python\"", "thole run"},
        Mistake{"claim --shell --pid 3", "exclude each other", ""}, Mistake{"claim --pid 0", "a process id", ""},
        Mistake{"extend", "[CLAIM] TIME missing", "thole extend 2h"},
        Mistake{"run --no-supervisor --time 1h x", "leaves nobody behind", "--time"},
        Mistake{"doctor 3", "one word too many", "thole doctor --help"}));

TEST(Parse, QuotesAStrangersWordSafely) {
  const std::string_view hostile[] = {"sta\x1b[2Jtus"};
  try {
    parse(hostile);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.full().find('\x1b'), std::string::npos);
  }
}

TEST(OwnOptions, AreThoseOfTheVerbAndAsIfNoneWereGivenBeforeTheFirst) {
  struct Made {
    unsigned tries = 3;
    std::string file;
  };
  Invocation line;
  const Setter set([](Made& made, const Word& word) { made.file = word.text; });
  EXPECT_EQ(std::as_const(line.own).as<Made>().tries, 3u);
  set(line, {"--file", "a"});
  EXPECT_EQ(std::as_const(line.own).as<Made>().file, "a");
  EXPECT_EQ(line.own.as<Made>().tries, 3u);
  EXPECT_THROW(line.own.as<int>(), std::bad_any_cast) << "a row of another verb";
  const Setter of_the_request([](model::Request& request, const Word&) { request.gpus = 5; });
  of_the_request(line, {});
  EXPECT_EQ(line.request.gpus, 5u);
}

// The table itself.

TEST(Table, EveryVerbIsRunInOneWay) {
  for (const Verb& verb : verbs()) EXPECT_NE(verb.run != nullptr, verb.run_alone != nullptr) << verb.name;
}

TEST(Table, NamesAndLettersAreUniqueWithinAVerb) {
  for (const Verb& verb : verbs()) {
    std::vector<std::string> names;
    std::vector<char> letters;
    for (const Option* row : options_of(verb)) {
      names.emplace_back(row->name);
      if (row->letter) letters.push_back(row->letter);
    }
    std::sort(names.begin(), names.end());
    std::sort(letters.begin(), letters.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end()) << verb.name;
    EXPECT_EQ(std::adjacent_find(letters.begin(), letters.end()), letters.end()) << verb.name;
  }
}

TEST(Table, EveryVisibleVerbHasTwoOrThreeExamplesThatParse) {
  for (const Verb& verb : verbs()) {
    if (verb.group.empty()) continue;
    EXPECT_GE(verb.examples.size(), 2u) << verb.name;
    EXPECT_LE(verb.examples.size(), 3u) << verb.name;
    for (const Example& example : verb.examples) {
      std::string_view line = example.line;
      if (line.starts_with("sudo ")) line.remove_prefix(5);
      if (line.starts_with("eval \"$(")) line = line.substr(8, line.size() - 10);
      ASSERT_TRUE(line.starts_with("thole")) << line;
      EXPECT_NO_THROW(parse_line(line.substr(5))) << line;
    }
  }
}
