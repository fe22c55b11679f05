#include "kernels/cpu/thread_pool.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>
#include <vector>

using grokd::kernels::ThreadPool;

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("every tile runs exactly once, whatever the number of tiles and threads") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (int round = 0; round < 2000; ++round) {
      const int tiles = round % 37;
      std::vector<std::atomic<int>> runs(37);
      pool.parallel_for(tiles, [&](int tile, int) { runs[static_cast<std::size_t>(tile)] += 1; });
      for (int tile = 0; tile < 37; ++tile) {
        REQUIRE(runs[static_cast<std::size_t>(tile)] == (tile < tiles ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a thread never runs two tiles at a time") {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 200; ++round) {
    pool.parallel_for(50, [&](int, int thread) {
      auto& mine = busy[static_cast<std::size_t>(thread)];
      if (mine.fetch_add(1) != 0) ++clashes;
      mine.fetch_sub(1);
    });
  }
  CHECK(clashes == 0);
}

TEST_CASE("what the tiles wrote is seen by the caller, also after its threads have gone to sleep") {
  ThreadPool pool(3);
  std::vector<int> values(64);
  for (int round = 1; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    pool.parallel_for(64, [&](int tile, int) { values[static_cast<std::size_t>(tile)] += round; });
    int sum = 0;
    for (const int value : values) sum += value;
    REQUIRE(sum == 64 * round * (round + 1) / 2);
  }
}

TEST_CASE("the caller waits for a slow tile of another thread") {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.parallel_for(2, [&](int, int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ++done;
  });
  CHECK(done == 2);
}

TEST_CASE("an idle pool uses no processor time") {
  ThreadPool pool(4);
  pool.parallel_for(16, [](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(cpu_seconds() - before < 0.01);
}
