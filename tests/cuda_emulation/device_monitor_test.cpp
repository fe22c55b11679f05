// What a machine's devices say of themselves, from a library with NVML's names.

#include "kernels/device_monitor.h"

#include <doctest/doctest.h>

namespace grokd::test {

TEST_CASE("clocks, temperature and memory of every device are read where NVML is there") {
  const kernels::DeviceMonitor monitor(FAKE_NVML);
  for (int reading = 0; reading < 2; ++reading) {
    const auto states = monitor.read();
    REQUIRE(states.size() == 2);
    CHECK(states[1].device == 1);
    CHECK(states[1].clock_mhz == 1980);
    CHECK(states[1].temperature == 41);
    CHECK(states[1].memory_used == 600);
    CHECK(states[1].memory_total == 1000);
  }
}

TEST_CASE("without NVML there are no devices to tell of") {
  CHECK(kernels::DeviceMonitor("libno-such-library.so.1").read().empty());
}

}  // namespace grokd::test
