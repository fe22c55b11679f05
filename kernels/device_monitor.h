#pragma once
// Clocks, temperature and memory of NVIDIA devices through NVML, where its library is on the machine; no
// build needs it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace grokd::kernels {

struct DeviceState {
  int device = 0;
  unsigned clock_mhz = 0;    // of the multiprocessors
  unsigned temperature = 0;  // degrees Celsius
  std::uint64_t memory_used = 0, memory_total = 0;
};

class DeviceMonitor {
 public:
  explicit DeviceMonitor(const std::string& library = "libnvidia-ml.so.1");
  ~DeviceMonitor();
  /// One entry a device; empty without the library or a driver. Not from several threads at once.
  std::vector<DeviceState> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace grokd::kernels
