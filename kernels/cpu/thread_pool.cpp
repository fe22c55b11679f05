#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace grokd::kernels {
namespace {

// A spin that ends in sleep was wasted (the engine is idle, or another process holds the core we wait for),
// so the next one is shorter; one that is answered in time makes the next longer again.
constexpr int kShortestSpinUs = 4;
constexpr int kLongestSpinUs = 64;

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr,
          0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
          0);
}

/// Spins until done() or the time is up; adapts `spin_us`.
template <class Done>
bool spin_until(int& spin_us, const Done& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) {
        if (spin_us < kLongestSpinUs) spin_us *= 2;
        return true;
      }
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  if (spin_us > kShortestSpinUs) spin_us /= 2;
  return done();
}

}  // namespace

ThreadPool::ThreadPool(int threads) : caller_spin_us_(kLongestSpinUs) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1);
  futex_wake(generation_);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int tiles, Call call, const void* context) {
  call_.store(call, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  unfinished_.store(static_cast<std::uint32_t>(tiles), std::memory_order_relaxed);
  tickets_.store(static_cast<std::uint64_t>(tiles) << 32, std::memory_order_release);
  generation_.fetch_add(1);
  if (sleepers_.load() != 0) futex_wake(generation_);
  take_tiles(0);
  wait_for_end();
}

void ThreadPool::take_tiles(int thread) {
  for (;;) {
    const std::uint64_t peek = tickets_.load(std::memory_order_relaxed);
    if (static_cast<std::uint32_t>(peek) >= peek >> 32) return;
    const std::uint64_t ticket = tickets_.fetch_add(1, std::memory_order_acquire);
    const auto tile = static_cast<std::uint32_t>(ticket);
    if (tile >= ticket >> 32) return;
    call_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed), static_cast<int>(tile),
                                          thread);
    if (unfinished_.fetch_sub(1) == 1 && caller_sleeps_.load()) futex_wake(unfinished_);
  }
}

void ThreadPool::wait_for_end() {
  const auto ended = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (ended() || spin_until(caller_spin_us_, ended)) return;
  caller_sleeps_.store(true);
  for (std::uint32_t left; (left = unfinished_.load()) != 0;) futex_wait(unfinished_, left);
  caller_sleeps_.store(false);
}

void ThreadPool::work(int thread) {
  int spin_us = kLongestSpinUs;
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_job(seen, spin_us);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    take_tiles(thread);
  }
}

void ThreadPool::wait_for_job(std::uint32_t seen, int& spin_us) {
  const auto changed = [this, seen] { return generation_.load(std::memory_order_acquire) != seen; };
  if (changed() || spin_until(spin_us, changed)) return;
  sleepers_.fetch_add(1);
  while (generation_.load() == seen) futex_wait(generation_, seen);
  sleepers_.fetch_sub(1);
}

}  // namespace grokd::kernels
