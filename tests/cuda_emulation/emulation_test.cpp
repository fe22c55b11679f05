// The emulator itself: what a kernel does wrong must be found, what it does right must not.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cuda/launch.h"

namespace grokd::kernels::cuda {
namespace {

using cuda_emulation::KernelFault;

constexpr int kThreads = 96;

/// Each thread passes its index to the next one through shared memory.
__global__ void rotate(int* out, bool with_barrier) {
  SharedMemory shared;
  const auto values = shared.take<int>(kThreads);
  const int t = static_cast<int>(threadIdx.x);
  values[t] = t;
  if (with_barrier) __syncthreads();
  out[t] = values[(t + 1) % kThreads];
}

/// Sums lanes by way of shared memory, one warp.
__global__ void neighbours(int* out, bool with_barrier) {
  SharedMemory shared;
  const auto values = shared.take<int>(kWarp);
  const int t = static_cast<int>(threadIdx.x);
  values[t] = t;
  if (with_barrier) __syncwarp();
  out[t] = values[t ^ 1];
}

__global__ void past_the_end(int index) {
  SharedMemory shared;
  const auto values = shared.take<int>(8);
  values[index] = 1;
}

__global__ void only_half_arrives() {
  if (threadIdx.x < kWarp / 2) __syncwarp();
}

__global__ void unwritten(int* out) {
  SharedMemory shared;
  const auto values = shared.take<int>(4);
  out[0] = values[2];
}

__global__ void write_at(int* data, int index) { data[index] = 7; }

__global__ void shuffles(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  int sum = t;
  for (int s = kWarp / 2; s > 0; s /= 2) sum += __shfl_xor_sync(kAllLanes, sum, s);
  out[t] = sum;
  out[kWarp + t] = __shfl_down_sync(kAllLanes, t, 3);
  out[2 * kWarp + t] = static_cast<int>(__ballot_sync(kAllLanes, t % 3 == 0));
}

__global__ void count(int* out) {
  SharedMemory shared;
  const auto total = shared.take<int>(1);
  if (threadIdx.x == 0) total[0] = 0;
  __syncthreads();
  add_shared(total, 0, 1);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, static_cast<int>(total[0]));
}

__global__ void multiply_tile(const int* a, const int* b, int* c, bool b_signed) {
  const int t = static_cast<int>(threadIdx.x);
  const int own_a[4] = {a[4 * t], a[4 * t + 1], a[4 * t + 2], a[4 * t + 3]},
            own_b[2] = {b[2 * t], b[2 * t + 1]};
  int own_c[4] = {t, 1, 2, 3};
  if (b_signed) {
    mma_s8(own_c, own_a, own_b);
  } else {
    mma_u8(own_c, own_a, own_b);
  }
  for (int i = 0; i < 4; ++i) c[4 * t + i] = own_c[i];
}

}  // namespace

TEST_CASE("a kernel without one of its barriers is found out") {
  std::vector<int> out(kThreads);
  const std::size_t shared = kThreads * sizeof(int);
  CHECK_NOTHROW(launch(rotate, 1, kThreads, shared, nullptr, out.data(), true));
  for (int t = 0; t < kThreads; ++t) REQUIRE(out[static_cast<std::size_t>(t)] == (t + 1) % kThreads);
  CHECK_THROWS_AS(launch(rotate, 1, kThreads, shared, nullptr, out.data(), false), KernelFault);
  CHECK_NOTHROW(launch(neighbours, 1, kWarp, shared, nullptr, out.data(), true));
  CHECK_THROWS_AS(launch(neighbours, 1, kWarp, shared, nullptr, out.data(), false), KernelFault);
  CHECK_NOTHROW(launch(rotate, 3, kThreads, shared, nullptr, out.data(), true));  // and goes on after a fault
}

TEST_CASE("shared memory is checked for bounds, for its size and for what was never written") {
  int out = 0;
  CHECK_NOTHROW(launch(past_the_end, 1, 1, 32, nullptr, 7));
  CHECK_THROWS_AS(launch(past_the_end, 1, 1, 32, nullptr, 8), KernelFault);
  CHECK_THROWS_AS(launch(past_the_end, 1, 1, 32, nullptr, -1), KernelFault);
  CHECK_THROWS_AS(launch(past_the_end, 1, 1, 31, nullptr, 0), KernelFault);
  CHECK_THROWS_AS(launch(unwritten, 1, 1, 16, nullptr, &out), KernelFault);
}

TEST_CASE("lanes that never come are an error, not a hang") {
  CHECK_THROWS_AS(launch(only_half_arrives, 1, kWarp, 0, nullptr), KernelFault);
}

TEST_CASE("an access outside of device memory ends the program") {
  const auto ends_badly = [](int index) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGSEGV, SIG_DFL);
      std::signal(SIGABRT, SIG_DFL);
      auto data = allocate_device(16 * sizeof(int));
      launch(write_at, 1, 1, 0, nullptr, reinterpret_cast<int*>(data.get()), index);
      data.reset();  // looks at the bytes behind the block
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  };
  CHECK_FALSE(ends_badly(0));
  CHECK_FALSE(ends_badly(15));
  CHECK(ends_badly(16));
  CHECK(ends_badly(-1100));
}

TEST_CASE("shuffles, votes and atomics do what CUDA's do") {
  std::vector<int> out(3 * kWarp);
  launch(shuffles, 1, kWarp, 0, nullptr, out.data());
  for (int t = 0; t < kWarp; ++t) {
    CHECK(out[static_cast<std::size_t>(t)] == 31 * 32 / 2);
    CHECK(out[static_cast<std::size_t>(kWarp + t)] == (t + 3 < kWarp ? t + 3 : t));
    CHECK(static_cast<unsigned>(out[static_cast<std::size_t>(2 * kWarp + t)]) == 0x49249249u);
  }
  int total = 0;
  launch(count, dim3(5, 2), 70, sizeof(int), nullptr, &total);
  CHECK(total == 5 * 2 * 70);
}

TEST_CASE("dp4a multiplies four signed bytes and adds") {
  CHECK(__dp4a(0x01020304, 0x01010101, 5) == 15);
  CHECK(__dp4a(static_cast<int>(0x80ff7f01u), static_cast<int>(0x807f80ffu), -3) ==
        -3 + 128 * 128 - 127 - 127 * 128 - 1);
}

// PTX manual, mma.m16n8k32: where each lane's bytes lie in the matrices, read off its figures.
TEST_CASE("the emulated mma has the layout of the PTX tables") {
  // A: lane 0 holds (0, 0..3), (8, 0..3), (0, 16..19), (8, 16..19); lane 5 is group 1, thread 1.
  CHECK(cuda_emulation::mma_a_row(0, 4) == 8);
  CHECK(cuda_emulation::mma_a_col(0, 8) == 16);
  CHECK(cuda_emulation::mma_a_row(5, 0) == 1);
  CHECK(cuda_emulation::mma_a_col(5, 0) == 4);
  CHECK(cuda_emulation::mma_a_row(31, 15) == 15);
  CHECK(cuda_emulation::mma_a_col(31, 15) == 31);
  CHECK(cuda_emulation::mma_b_row(5, 6) == 22);
  CHECK(cuda_emulation::mma_b_col(5) == 1);
  CHECK(cuda_emulation::mma_c_row(6, 3) == 9);
  CHECK(cuda_emulation::mma_c_col(6, 3) == 5);
}

TEST_CASE("the emulated mma multiplies matrices") {
  for (const bool b_signed : {true, false}) {
    std::vector<std::int8_t> a(16 * 32), a_lanes(512);
    std::vector<std::uint8_t> b(32 * 8), b_lanes(256);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::int8_t>(i * 37 + 11);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<std::uint8_t>(i * 91 + 200);
    for (int lane = 0; lane < kWarp; ++lane) {
      const int g = lane / 4, t = lane % 4;  // groupID and threadID_in_group of the manual
      for (int i = 0; i < 16; ++i) {
        const int row = (i < 4 || (i >= 8 && i < 12)) ? g : g + 8, col = t * 4 + (i & 3) + (i >= 8 ? 16 : 0);
        a_lanes[static_cast<std::size_t>(lane * 16 + i)] = a[static_cast<std::size_t>(row * 32 + col)];
      }
      for (int i = 0; i < 8; ++i) {
        const int row = t * 4 + (i & 3) + (i >= 4 ? 16 : 0);
        b_lanes[static_cast<std::size_t>(lane * 8 + i)] = b[static_cast<std::size_t>(row * 8 + g)];
      }
    }
    std::vector<int> a_words(128), b_words(64), c(128);
    std::memcpy(a_words.data(), a_lanes.data(), 512);
    std::memcpy(b_words.data(), b_lanes.data(), 256);
    launch(multiply_tile, 1, kWarp, 0, nullptr, a_words.data(), b_words.data(), c.data(), b_signed);
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = i < 2 ? lane / 4 : lane / 4 + 8, col = lane % 4 * 2 + (i & 1);
        int sum = i == 0 ? lane : i;
        for (int k = 0; k < 32; ++k) {
          const std::uint8_t byte = b[static_cast<std::size_t>(k * 8 + col)];
          sum += a[static_cast<std::size_t>(row * 32 + k)] *
                 (b_signed ? static_cast<std::int8_t>(byte) : int{byte});
        }
        REQUIRE(c[static_cast<std::size_t>(lane * 4 + i)] == sum);
      }
    }
  }
}

}  // namespace grokd::kernels::cuda
