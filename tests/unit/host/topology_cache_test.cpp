// The topology kept between runs: what makes it be read anew, and what is not believed.
#include "host/topology/cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/fd.hpp"
#include "host/topology/live.hpp"
#include "test_folders.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

namespace fs = std::filesystem;

const std::string program = THOLE_BINARY_DIR "/fake/fake_probe";

// A machine of four PUs with a boot id, so that what is read of it is kept; and a user's runtime directory.
class Cached : public ::testing::Test {
 protected:
  Cached() {
    tree.file("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
    online("0-3");
    tree.file("sys/devices/system/node/online", "0\n");
    tree.file("sys/devices/system/node/node0/cpumap", "f\n");
    tree.file("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        2097152 kB\n");
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      tree.file(topology + "physical_package_id", "0\n");
      tree.file(topology + "core_id", std::to_string(cpu) + "\n");
      tree.file(topology + "thread_siblings", std::to_string(1 << cpu) + "\n");
      tree.file(topology + "core_siblings", "f\n");
    }
  }

  void online(const std::string& list) { tree.file("sys/devices/system/cpu/online", list + "\n"); }
  std::string runtime() const { return tree.root() + "/runtime"; }
  std::string file() const { return runtime() + "/topology"; }

  // A run of its own. Without a probe only the cache can tell it the CPUs.
  std::size_t cpus(bool with_probe) {
    LiveTopology topology({tree.root(), {with_probe ? program : "", runtime(), ""}});
    return topology.around({}, Millis(20'000)).cpus.size();
  }
  std::string content() { return read_file(file()).value_or(""); }

  test::MadeUpTree tree;
};

TEST_F(Cached, IsReadOnceByTheProbeAndThenFromTheFile) {
  EXPECT_EQ(cpus(false), 0u);
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(cpus(false), 4u);
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  ASSERT_EQ(::stat(runtime().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0700u);
}

TEST_F(Cached, IsReadAnewAfterABootAndWhenCpusNodesOrNicsCameOrWent) {
  const std::pair<const char*, std::function<void()>> changes[] = {
      {"boot", [this] { tree.file("proc/sys/kernel/random/boot_id", "99999999-2222-3333-4444-555555555555\n"); }},
      {"cpus", [this] { online("0-2"); }},
      {"nodes", [this] { tree.file("sys/devices/system/node/online", "0-1\n"); }},
      {"infiniband", [this] { tree.folder("sys/class/infiniband/mlx5_0"); }},
      {"network", [this] { tree.folder("sys/class/net/eth0/device"); }}};
  for (const auto& [what, change] : changes) {
    EXPECT_GT(cpus(true), 0u);
    EXPECT_GT(cpus(false), 0u) << what;
    change();
    EXPECT_EQ(cpus(false), 0u) << what;
  }
}

TEST_F(Cached, StaysWhenInterfacesOfContainersComeAndGo) {
  EXPECT_EQ(cpus(true), 4u);
  tree.folder("sys/class/net/veth1234");
  EXPECT_EQ(cpus(false), 4u);
}

TEST_F(Cached, ALongRunningProcessSeesTheChangeToo) {
  LiveTopology topology({tree.root(), {program, runtime(), ""}});
  EXPECT_EQ(topology.around({}, Millis(20'000)).cpus.size(), 4u);
  online("0-2");
  EXPECT_EQ(topology.around({}, Millis(20'000)).cpus.size(), 3u);
}

TEST_F(Cached, DamagedIsIgnoredAndReplaced) {
  EXPECT_EQ(cpus(true), 4u);
  const std::string good = content();
  for (std::size_t cut : {std::size_t{0}, std::size_t{5}, good.size() / 2, good.size() - 1}) {
    tree.file("runtime/topology", good.substr(0, cut));
    EXPECT_EQ(cpus(false), 0u) << "cut at " << cut;
  }
  for (std::size_t flip = 0; flip < good.size(); flip += 7) {
    std::string bad = good;
    bad[flip] = static_cast<char>(bad[flip] ^ 1);
    tree.file("runtime/topology", bad);
    EXPECT_EQ(cpus(false), 0u) << "flipped at " << flip;
  }
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(content(), good);
}

TEST_F(Cached, WritableByOthersIsIgnoredAndReplaced) {
  EXPECT_EQ(cpus(true), 4u);
  ASSERT_EQ(::chmod(file().c_str(), 0666), 0);
  EXPECT_EQ(cpus(false), 0u);
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(cpus(false), 4u);
  ASSERT_EQ(::chmod(runtime().c_str(), 0777), 0);
  EXPECT_EQ(cpus(false), 0u);
  EXPECT_EQ(cpus(true), 4u);  // nothing is kept there, and everything works
  EXPECT_EQ(cpus(false), 0u);
}

TEST_F(Cached, OfAnotherUserIsIgnoredAndReplaced) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file to another user";
  EXPECT_EQ(cpus(true), 4u);
  ASSERT_EQ(::chown(file().c_str(), 12345, 12345), 0);
  EXPECT_EQ(cpus(false), 0u);
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(cpus(false), 4u);
  ASSERT_EQ(::chown(runtime().c_str(), 12345, 12345), 0);
  EXPECT_EQ(cpus(false), 0u);
}

TEST_F(Cached, APlantedLinkOrPipeIsNotFollowed) {
  EXPECT_EQ(cpus(true), 4u);
  fs::rename(file(), runtime() + "/elsewhere");
  fs::create_symlink("elsewhere", file());
  EXPECT_EQ(cpus(false), 0u);
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_EQ(cpus(false), 0u);
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(cpus(false), 4u);
}

TEST_F(Cached, WithoutTheCpusIsNotKept) {
  LiveTopology topology({tree.root(), {program, runtime(), "/nonexistent/libhwloc.so.15"}});
  EXPECT_TRUE(topology.around({}, Millis(20'000)).cpus.empty());
  EXPECT_THAT(topology.problem(), testing::HasSubstr("libhwloc"));
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(Cached, ARateThatWasUnknownIsAskedForAgain) {
  const std::string nic = tree.pci("pci0000:00", "0000:01:00.0", "0x15b3", "0x1019", "0x020000");
  tree.file(nic + "/net/eth0/speed", "-1\n");
  tree.link("sys/class/net/eth0", nic + "/net/eth0");
  EXPECT_EQ(cpus(true), 4u);
  tree.file(nic + "/net/eth0/speed", "100000\n");
  LiveTopology topology({tree.root(), {"", runtime(), ""}});
  const model::Machine machine = topology.around({}, Millis(0));
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0].rate_gbps, 100.0);
}

TEST_F(Cached, AGpuThatCameLaterIsPlacedAllTheSame) {
  EXPECT_EQ(cpus(true), 4u);
  tree.pci("pci0000:00", "0000:03:00.0", "0x10de", "0x2330", "0x030200", "0", "0-3");
  model::Gpu gpu;
  gpu.pci = model::PciAddress::parse("0000:03:00.0");
  LiveTopology topology({tree.root(), {"", runtime(), ""}});
  const model::Machine machine = topology.around({gpu}, Millis(0));
  EXPECT_EQ(machine.gpus[0].numa, 0);
  EXPECT_EQ(machine.gpus[0].near_cpus.package, model::CpuSet::parse("0-3"));
}

TEST_F(Cached, ACapturedTreeIsNeverKept) {
  fs::remove(tree.root() + "/proc/sys/kernel/random/boot_id");
  EXPECT_EQ(topology_key(Tree(tree.root())), "");
  EXPECT_EQ(cpus(true), 4u);
  EXPECT_EQ(cpus(false), 0u);
}

}  // namespace
}  // namespace thole::host
