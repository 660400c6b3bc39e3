#include "app/show/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/cli/status_fixture.hpp"

using namespace thole;
using namespace thole::app;
using namespace thole::test;
using testing::HasSubstr;

namespace {

using Result = Check::Result;

// A healthy machine; tests spoil one thing.
struct Patient {
  Overview overview = overview_of(2);
  model::Surroundings surroundings;
  std::optional<port::StoreAbout> store = port::StoreAbout{"/run/thole", "system", "", {}, {}};
  std::vector<std::string> files, cautions;
  Millis look{20};
  std::string topology;

  Patient() {
    surroundings.drivers = {
        {model::Vendor::nvidia, 2, "580.65.06", {{"/dev/nvidia0", true}, {"/dev/nvidia1", true}, {"/dev/nvidiactl", true}},
         false}};
    surroundings.common_directories = {"/run/thole"};
    overview.snapshot.observations = {{"nvidia", "nvml 580.65.06", "", true, false, std::nullopt}};
    for (model::Gpu& gpu : overview.snapshot.machine.gpus) gpu.compute_mode = std::string("default");
    overview.outer.visible = {true, true};
  }

  std::vector<Check> checks() const { return examine({overview, surroundings, store, files, cautions, look, topology}); }

  // The checks that are not ok, in one text.
  std::string complaints() const {
    std::string text;
    for (const Check& check : checks())
      if (check.result != Result::ok)
        text += fmt::format("{} {}: {} -> {}\n", to_string(check.result), check.name, check.text, check.fix);
    return text;
  }
};

}  // namespace

TEST(Doctor, FindsNothingOnAHealthyMachine) { EXPECT_EQ(Patient().complaints(), ""); }

TEST(Doctor, SaysThatTheFirstClaimHasNoRoom) {
  Patient patient;
  patient.store.reset();
  Directories directories;
  directories.claims = {"/run/lock/thole", false, "the disk is full: /run/lock/thole", "free some space there"};
  const std::vector<std::string> none;
  std::vector<Check> checks = examine({.overview = patient.overview,
                                       .surroundings = patient.surroundings,
                                       .store = patient.store,
                                       .config_files = none,
                                       .config_cautions = none,
                                       .directories = directories});
  std::erase_if(checks, [](const Check& check) { return check.result == Result::ok; });
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].result, Result::problem);
  EXPECT_EQ(checks[0].name, "state directory");
  EXPECT_EQ(checks[0].text, "the first claim cannot make it: the disk is full: /run/lock/thole");
  EXPECT_EQ(checks[0].fix, "free some space there");
}

TEST(Doctor, SaysWhetherQueuedJobsOutliveTheSession) {
  const auto said = [](const model::Logout& logout) {
    Patient patient;
    patient.surroundings.logout = logout;
    EXPECT_EQ(patient.complaints(), "");
    for (const Check& check : patient.checks())
      if (check.name == "queue") return check.text;
    return std::string();
  };
  EXPECT_THAT(said({false, false, false}), HasSubstr("go on after you have logged out"));
  EXPECT_THAT(said({true, false, false}), HasSubstr("loginctl enable-linger"));
  EXPECT_THAT(said({true, true, true}), HasSubstr("systemctl --user enable thole-runner"));
}

struct Ailment {
  const char* name;
  void (*spoil)(Patient&);
  const char* complaint;
  const char* fix;
};

class DoctorFinds : public testing::TestWithParam<Ailment> {};

TEST_P(DoctorFinds, AndNamesTheFix) {
  Patient patient;
  GetParam().spoil(patient);
  EXPECT_THAT(patient.complaints(), HasSubstr(GetParam().complaint));
  EXPECT_THAT(patient.complaints(), HasSubstr(GetParam().fix));
}

INSTANTIATE_TEST_SUITE_P(
    Table, DoctorFinds,
    testing::Values(
        Ailment{"NoGpu",
                [](Patient& p) { p.surroundings.drivers.clear(), p.overview.snapshot.machine.gpus.clear(); },
                "problem driver: no GPU on the PCI bus", "--machine dgx-a100"},
        Ailment{"SandboxWithAKernelOfItsOwn", [](Patient& p) { p.surroundings.drivers.clear(); },
                "warning driver: 2 GPUs can be used, though neither the PCI bus nor a loaded driver is seen from here", ""},
        Ailment{"DriverNotLoaded", [](Patient& p) { p.surroundings.drivers[0].loaded.reset(); },
                "the kernel driver is not loaded", "modprobe nvidia"},
        Ailment{"NoNodes", [](Patient& p) { p.surroundings.drivers[0].nodes.clear(); }, "no device nodes", "nvidia-modprobe"},
        Ailment{"NoPermission", [](Patient& p) { p.surroundings.drivers[0].nodes[1].usable = false; },
                "no permission for /dev/nvidia1", "group"},
        Ailment{"SleepingDriver", [](Patient& p) { p.look = Millis{3000}; }, "took 3.0 s to answer", "nvidia-persistenced"},
        Ailment{"SilentDriver",
                [](Patient& p) {
                  p.overview.snapshot.observations[0] = {"nvidia", "procfs", "did not answer within 4 s",
                                                         false,    false,    Millis{34000}};
                },
                "problem reading nvidia: did not answer within 4 s (procfs); its last answer is 34s old", ""},
        Ailment{"ForeignPids", [](Patient& p) { p.overview.snapshot.observations[0].pids_foreign = true; },
                "another pid namespace", "--pid=host"},
        Ailment{"LostGpu", [](Patient& p) { p.overview.snapshot.machine.gpus[1].health = model::Health::lost; },
                "problem GPU 1: lost", "Xid 79"},
        Ailment{"Mismatch", [](Patient& p) { p.overview.snapshot.machine.gpus[0].health = model::Health::driver_mismatch; },
                "driver-mismatch", "reboot"},
        Ailment{"ExclusiveMode",
                [](Patient& p) { p.overview.snapshot.machine.gpus[0].compute_mode = std::string("exclusive-process"); },
                "exclusive-process", "-c DEFAULT"},
        Ailment{"EmptyMig", [](Patient& p) { p.overview.snapshot.machine.gpus[0].mig_mode = true; }, "no instances", "-cgi"},
        Ailment{"Prohibited", [](Patient& p) { p.overview.snapshot.machine.gpus[0].compute_mode = std::string("prohibited"); },
                "problem GPU 0: compute mode is prohibited", "-c DEFAULT"},
        Ailment{"NobodysGpu",
                [](Patient& p) {
                  p.overview.units[1].state = State::unknown;
                  p.overview.units[1].why = "neither its processes nor its memory can be read (only --trust-claims takes it)";
                },
                "warning GPU 1: is handed out to nobody: neither its processes nor its memory can be read", "--trust-claims"},
        Ailment{"FatalXidOfAGpuThatWorks", [](Patient& p) { p.overview.snapshot.machine.gpus[1].last_xid = 79; },
                "warning GPU 1: the last Xid that the driver reported is 79", ""},
        Ailment{"Intruder",
                [](Patient& p) {
                  claim(p.overview.units[0], holding("anna", Seconds{1}, std::nullopt, "x"));
                  p.overview.units[0].strangers = {process(7, "bob", "y")};
                },
                "claimed by one and used by another", "thole why 0"},
        Ailment{"UnknownCpus", [](Patient& p) { p.topology = "libhwloc is missing: sudo apt-get install libhwloc15"; },
                "warning CPUs: libhwloc is missing", "apt-get install libhwloc15"},
        Ailment{"NoNearCpus",
                [](Patient& p) {
                  p.overview.snapshot.machine.cpus.resize(4);
                  p.overview.snapshot.machine.gpus[0].near_cpus.node = model::CpuSet::parse("0-3");
                },
                "warning near CPUs: the platform names no near CPUs for 1 of 2 GPUs", ""},
        Ailment{"EndsAtLogout", [](Patient& p) { p.surroundings.logout = {true, true, false}; },
                "warning queue: logind ends all that a user runs when he logs out", "loginctl enable-linger"},
        Ailment{"NoDirectory", [](Patient& p) { p.store.reset(); }, "warning state directory: none yet", "sudo thole init"},
        Ailment{"ClosedDirectory",
                [](Patient& p) {
                  p.store.reset();
                  p.overview.claims_problem = "cannot open: /run/thole";
                },
                "problem state directory: cannot open", "sudo thole init"},
        Ailment{"AdvisoryDirectory", [](Patient& p) { p.store->kind = "fallback"; }, "advisory between friendly users",
                "sudo thole init"},
        Ailment{"TwoDirectories",
                [](Patient& p) {
                  p.surroundings.common_directories = {"/run/thole", "/tmp/thole"};
                },
                "/run/thole and /tmp/thole", "remove the others"},
        Ailment{"Container", [](Patient& p) { p.surroundings.container = true; }, "not seen outside",
                "-v /run/thole:/run/thole"},
        Ailment{"MaskedAll",
                [](Patient& p) {
                  p.overview.outer.named_by = "CUDA_VISIBLE_DEVICES";
                  p.overview.outer.variables = {"CUDA_VISIBLE_DEVICES"};
                  p.overview.outer.visible = {false, false};
                },
                "CUDA_VISIBLE_DEVICES leaves 0 of 2 GPUs", "unset CUDA_VISIBLE_DEVICES"},
        Ailment{"Variable", [](Patient& p) { p.cautions = {"THOLE_MASHINE means nothing"}; }, "THOLE_MASHINE", ""}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Doctor, AsksForNoDriverOnASimulatedMachine) {
  Patient patient;
  patient.surroundings.drivers.clear();
  patient.overview.snapshot.simulated = true;
  EXPECT_EQ(patient.complaints(), "");
}

TEST(Doctor, IsContentWithASharedDirectoryInAContainer) {
  Patient patient;
  patient.surroundings.container = patient.surroundings.state_dir_mounted = true;
  EXPECT_EQ(patient.complaints(), "");
}
