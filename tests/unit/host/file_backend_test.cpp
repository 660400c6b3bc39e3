// The backend over files against probes that answer, answer in part, crash or cannot be run. The probe is a shell script here.
#include <gtest/gtest.h>

#include <filesystem>

#include "host/drm/backend.hpp"
#include "model/json.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

model::Gpu made_up(unsigned bus) {
  model::Gpu gpu;
  gpu.vendor = model::Vendor::amd;
  gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(bus), 0, 0};
  return gpu;
}

std::string answer(unsigned bus, double load) {
  model::Gpu gpu = made_up(bus);
  gpu.use.utilization_percent = load;
  gpu.use.temperature_c = model::Metric<double>::unsupported();
  gpu.use.power_w = model::Metric<double>::failed("busy");
  return model::to_json(gpu).dump();
}

// Two GPUs, at buses 1 and 2. Never observed in place: the tree is this machine's.
const FileVendor vendor{
    .vendor = model::Vendor::amd,
    .source = "test",
    .present = [](const Tree&) { return true; },
    .identify = [](const Tree&) { return std::vector{made_up(1), made_up(2)}; },
    .observe = [](const Tree&, bool, const std::function<void(model::Gpu)>&) { FAIL() << "observed in place"; },
    .generation = [](const Tree&) { return std::string(); },
    .problem = [](const Tree&) { return std::string(); },
};

class FileProbe : public ::testing::Test {
 protected:
  // What the probe does with each question, as shell.
  FileOptions probe(const std::string& on_question) {
    folder.file("probe", "#!/bin/sh\nwhile read question; do\n" + on_question + "\ndone\n");
    std::filesystem::permissions(folder.root() + "/probe", std::filesystem::perms::all);
    return {"", folder.root() + "/probe", folder.root() + "/run"};
  }
  static std::string say(const std::string& line) { return "echo '" + line + "'\n"; }
  test::MadeUpTree folder;
};

TEST_F(FileProbe, WhatItAnswersIsTheUseOfTheGpus) {
  FileBackend backend(vendor, probe(say(answer(2, 20)) + say(answer(1, 10)) + say(".")));
  port::Reading reading = backend.read(Millis(10'000));
  EXPECT_TRUE(reading.observation.answered);
  EXPECT_EQ(reading.observation.problem, "");
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_EQ(reading.gpus[0].use.utilization_percent, 10.0);
  EXPECT_EQ(reading.gpus[1].use.utilization_percent, 20.0);
  EXPECT_EQ(reading.gpus[0].use.temperature_c, model::Metric<double>::unsupported());
  EXPECT_EQ(reading.gpus[0].use.power_w, model::Metric<double>::failed("busy"));
}

TEST_F(FileProbe, OneThatHangsKeepsOnlyItsOwnGpuFromBeingRead) {
  FileBackend backend(vendor, probe(say(answer(1, 10)) + "exec sleep 1000"));
  port::Reading reading = backend.read(Millis(10'000));
  EXPECT_FALSE(reading.observation.answered);
  EXPECT_NE(reading.observation.problem, "");
  EXPECT_EQ(reading.gpus[0].health, model::Health::ok);
  EXPECT_EQ(reading.gpus[0].use.utilization_percent, 10.0);
  EXPECT_EQ(reading.gpus[1].health, model::Health::hung);
  EXPECT_FALSE(reading.gpus[1].use.utilization_percent);
}

TEST_F(FileProbe, LastAnswerServesAsStaleDataWithItsAge) {
  // The second question is answered by nothing.
  FileBackend backend(vendor, probe("if [ -e " + folder.root() + "/asked ]; then exit 3; fi; touch " + folder.root() +
                                    "/asked\n" + say(answer(1, 10)) + say(answer(2, 20)) + say(".")));
  EXPECT_FALSE(backend.read(Millis(10'000)).observation.age);
  port::Reading reading = backend.read(Millis(10'000));
  EXPECT_FALSE(reading.observation.answered);
  EXPECT_TRUE(reading.observation.age);
  EXPECT_EQ(reading.gpus[1].use.utilization_percent, 20.0);
  EXPECT_EQ(reading.gpus[1].health, model::Health::hung);
}

TEST_F(FileProbe, OneThatCannotBeRunLeavesTheGpusUnreadable) {
  FileBackend backend(vendor, {"", "/nowhere/thole", ""});
  port::Reading reading = backend.read(Millis(1000));
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_FALSE(reading.observation.answered);
  EXPECT_EQ(reading.gpus[0].health, model::Health::unreadable);
}

TEST_F(FileProbe, NonsenseIsNoAnswer) {
  FileBackend backend(vendor, probe(say("{\"uuid\": 7}") + say("nonsense") + say("[]") + say(".")));
  port::Reading reading = backend.read(Millis(10'000));
  for (const model::Gpu& gpu : reading.gpus) EXPECT_FALSE(gpu.use.utilization_percent.known());
  EXPECT_FALSE(reading.observation.answered) << "an end without the GPUs is no answer";
}

}  // namespace
}  // namespace thole::host
