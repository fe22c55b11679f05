#pragma once
// Persistent threads that share out the tiles of one operation at a time.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace grokd::kernels {

/// The caller is thread 0 and takes part. Tiles are handed out one by one, so a thread that loses its core
/// delays only the tile it holds. Waiting threads spin for a bounded time, then sleep: idle costs nothing.
/// `parallel_for` allocates nothing and makes no system call but futex. One caller at a time.
class ThreadPool {
 public:
  /// threads >= 1, the caller's included.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// body(tile, thread) once for each tile in [0, tiles), in any order; returns when all are done.
  template <class Body>
  void parallel_for(int tiles, const Body& body) {
    if (tiles <= 1 || workers_.empty()) {
      for (int tile = 0; tile < tiles; ++tile) body(tile, 0);
      return;
    }
    run(
        tiles,
        [](const void* context, int tile, int thread) { (*static_cast<const Body*>(context))(tile, thread); },
        &body);
  }

 private:
  using Call = void (*)(const void* context, int tile, int thread);

  void run(int tiles, Call call, const void* context);
  void work(int thread);
  void take_tiles(int thread);
  void wait_for_job(std::uint32_t seen, int& spin_us);
  void wait_for_end();

  // Tiles of the job (high half) and the next one to hand out (low half): taking a tile is one fetch_add, and
  // whoever got a tile below the count knows that the job cannot end, nor its call change, before the tile
  // does.
  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // counts jobs; idle threads wait for it to change
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  int caller_spin_us_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace grokd::kernels
