// A read that the disk refuses is told as such: advice to set a sound queue aside would throw it away.
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "unit/host/store/disk_of_tests.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

class Damage : public QueueTest {
 protected:
  Damage() {
    store.reset();
    open();
    for (int i = 0; i < 40; ++i) run_all(submit(job(3, "job" + std::to_string(i))));
  }
  ~Damage() override { store.reset(); }

  void open() { store = std::make_unique<SqliteJobStore>(JobStoreOptions{.directory = directory, .vfs = disk.vfs()}); }

  // What is said when these reads of the disk fail, of a queue newly opened; "" when nothing is.
  std::string said(unsigned from, unsigned count) {
    open();
    disk.fail_reads(from, count);
    std::string text;
    try {
      (void)store->jobs({});
    } catch (const Error& error) {
      text = error.full();
    }
    disk.fail_reads(0, 0);
    return text;
  }

  DiskOfTests disk;
};

// Between the look at it and its opening others may have exchanged it.
TEST_F(Damage, ADirectoryThatIsNotOnesOwnAloneIsNoQueue) {
  store.reset();
  ASSERT_EQ(::chmod(directory.c_str(), 0770), 0);
  std::string text;
  try {
    open();
    (void)store->jobs({});
  } catch (const Error& error) {
    text = error.full();
  }
  EXPECT_NE(text.find("not yours alone"), std::string::npos) << text;
}

TEST_F(Damage, AReadThatFailsOnceIsNone) {
  unsigned told = 0;
  for (unsigned read = 0; read < 60; ++read) {
    const std::string text = said(read, 1);
    told += text.empty() ? 0 : 1;
    EXPECT_EQ(text.find("damaged"), std::string::npos) << read << ": " << text;
    EXPECT_EQ(store->jobs({}).size(), 40u) << "and the same connection goes on";
  }
  EXPECT_GT(told, 3u);
}

TEST_F(Damage, ADiskThatCannotBeReadIsNone) {
  unsigned told = 0;
  for (unsigned read = 0; read < 20; ++read) {
    const std::string text = said(read, 1'000'000);
    told += text.empty() ? 0 : 1;
    EXPECT_EQ(text.find("damaged"), std::string::npos) << read << ": " << text;
    EXPECT_TRUE(text.empty() || text.find("Input/output error") != std::string::npos || text.find("I/O") != std::string::npos)
        << text;
  }
  EXPECT_GT(told, 3u);
}

TEST_F(Damage, RealDamageIsSaidWithItsCure) {
  store.reset();
  std::filesystem::remove(directory + "/queue.db-wal");
  std::filesystem::remove(directory + "/queue.db-shm");
  std::ofstream(directory + "/queue.db") << std::string(20 * 4096, 'x');
  const std::string text = said(0, 0);
  EXPECT_NE(text.find("damaged"), std::string::npos) << text;
  EXPECT_NE(text.find("mv " + directory + "/queue.db"), std::string::npos) << text;
}

}  // namespace thole::host
