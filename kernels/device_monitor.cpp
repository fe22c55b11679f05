#include "kernels/device_monitor.h"

#include <dlfcn.h>

namespace grokd::kernels {
namespace {

// NVML's interface, as far as it is called: results are 0 for success.
using Device = void*;
struct MemoryInfo {
  unsigned long long total, free, used;
};
constexpr unsigned kMultiprocessorClock = 1, kDieSensor = 0;

struct Close {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

struct DeviceMonitor::Library {
  explicit Library(const std::string& name) : handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) return;
    const auto start = find<int (*)()>(handle.get(), "nvmlInit_v2");
    stop = find<int (*)()>(handle.get(), "nvmlShutdown");
    count = find<int (*)(unsigned*)>(handle.get(), "nvmlDeviceGetCount_v2");
    device = find<int (*)(unsigned, Device*)>(handle.get(), "nvmlDeviceGetHandleByIndex_v2");
    clock = find<int (*)(Device, unsigned, unsigned*)>(handle.get(), "nvmlDeviceGetClockInfo");
    temperature = find<int (*)(Device, unsigned, unsigned*)>(handle.get(), "nvmlDeviceGetTemperature");
    memory = find<int (*)(Device, MemoryInfo*)>(handle.get(), "nvmlDeviceGetMemoryInfo");
    started = start != nullptr && stop != nullptr && count != nullptr && device != nullptr &&
              clock != nullptr && temperature != nullptr && memory != nullptr && start() == 0;
  }
  ~Library() {
    if (started) stop();
  }

  std::unique_ptr<void, Close> handle;
  bool started = false;
  int (*stop)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*memory)(Device, MemoryInfo*) = nullptr;
};

DeviceMonitor::DeviceMonitor(const std::string& library) : library_(std::make_unique<Library>(library)) {}
DeviceMonitor::~DeviceMonitor() = default;

std::vector<DeviceState> DeviceMonitor::read() const {
  std::vector<DeviceState> states;
  unsigned count = 0;
  if (!library_->started || library_->count(&count) != 0) return states;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (library_->device(i, &device) != 0) continue;
    DeviceState state;
    state.device = static_cast<int>(i);
    MemoryInfo memory{};
    library_->clock(device, kMultiprocessorClock, &state.clock_mhz);
    library_->temperature(device, kDieSensor, &state.temperature);
    if (library_->memory(device, &memory) == 0)
      state.memory_used = memory.used, state.memory_total = memory.total;
    states.push_back(state);
  }
  return states;
}

}  // namespace grokd::kernels
