// A smaller look leaves out questions, never answers: what people are shown is what the fullest examination tells.
#include <gtest/gtest.h>

#include "model/json.hpp"
#include "nvidia_machine.hpp"

namespace thole::host {
namespace {

using port::Purpose;

constexpr Millis purpose_patience{20'000};

// Of everything that a GPU can tell, something that is not the usual.
constexpr const char* unusual =
    "gpus 6\ngpu * nvswitch 12\n"
    "gpu 0 util 37 20\ngpu 0 memory 81920 596 11000\ngpu 0 process compute 4711 10500\ngpu 0 serial 1562821000042\n"
    "gpu 1 name NVIDIA GeForce RTX 4090\ngpu 1 monitor 1\ngpu 1 display 1\ngpu 1 temp 88\ngpu 1 power 120 450\n"
    "gpu 1 memory 24564 380 300\ngpu 1 process graphics 4712 250\ngpu 1 nvswitch 0\n"
    "gpu 2 mode 3\ngpu 2 memory 81920 596 500\ngpu 2 process compute 4713 200\ngpu 2 process mps 4714 200\n"
    "gpu 3 mig 1\ngpu 3 instance MIG-a 1 0 3 3 40192 1000 3g.40gb\ngpu 3 process compute 4715 900 1 0\n"
    "gpu 4 recovery 1\n"
    "gpu 5 monitor 1\ngpu 5 util 99 99\n";

void set_up(const NvidiaMachine& machine) {
  machine.config(unusual);
  machine.file(
      "/proc/driver/nvidia/gpus/" + NvidiaMachine::pci(1) + "/information",
      fmt::format("Model: \t\t NVIDIA GeForce RTX 4090\nGPU UUID: \t {}\nDevice Minor: \t 1\n", NvidiaMachine::uuid(1)));
  for (int connected : {1, 5})
    machine.file("/sys/bus/pci/devices/" + NvidiaMachine::pci(connected) + "/class", "0x030000\n");
}

// The answers of a look, one JSON text a GPU, so that a difference can be read.
std::vector<std::string> told(NvidiaBackend& backend, Purpose purpose, bool with_figures = true) {
  model::Machine machine;
  machine.gpus = backend.read(purpose_patience, {purpose, {}}).gpus;
  std::vector<std::string> texts;
  for (model::Gpu& gpu : machine.gpus) {
    if (!with_figures) {
      gpu.monitor = {};
      gpu.use.utilization_percent = gpu.use.memory_utilization_percent = gpu.use.temperature_c = {};
      gpu.use.power_w = gpu.use.power_limit_w = {};
    }
    model::Machine one;
    one.gpus = {gpu};
    texts.push_back(model::dump(model::to_json(one), 1));
  }
  return texts;
}

TEST(NvidiaPurpose, WhatIsShownIsWhatAnExaminationTells) {
  NvidiaMachine machine(6);
  set_up(machine);
  machine.settle();
  const auto all = [&] {
    NvidiaBackend fresh(machine.options());
    return told(fresh, Purpose::examine);
  }();
  ASSERT_EQ(all.size(), 6u);
  std::filesystem::remove_all(machine.runtime_dir());
  NvidiaBackend first(machine.options());
  EXPECT_EQ(told(first, Purpose::show), all) << "the very first look";
  EXPECT_EQ(told(first, Purpose::show), all) << "a warm one";
  NvidiaBackend second(machine.options());
  EXPECT_EQ(told(second, Purpose::show), all) << "with the identities that the first one kept";
  told(second, Purpose::claim);
  EXPECT_EQ(told(second, Purpose::show), all) << "after a look for a claim";
}

TEST(NvidiaPurpose, AClaimKnowsAllButFigures) {
  NvidiaMachine machine(6);
  set_up(machine);
  machine.settle();
  NvidiaBackend fresh(machine.options());
  const auto all = told(fresh, Purpose::examine, false);
  for (int look = 0; look < 2; ++look) {
    NvidiaBackend backend(machine.options());
    EXPECT_EQ(told(backend, Purpose::claim, false), all);
    EXPECT_EQ(told(backend, Purpose::claim, false), all);
  }
}

TEST(NvidiaPurpose, AModelThatTheKernelDoesNotKnowIsAskedOfTheLibrary) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu 0 name NVIDIA H200\n");
  machine.file("/proc/driver/nvidia/gpus/" + NvidiaMachine::pci(0) + "/information",
               fmt::format("Model: \t\t Unknown\nGPU UUID: \t {}\nDevice Minor: \t 0\n", NvidiaMachine::uuid(0)));
  NvidiaBackend backend(machine.options());
  EXPECT_EQ(backend.read(purpose_patience).gpus.at(0).model, "NVIDIA H200");
}

}  // namespace
}  // namespace thole::host
