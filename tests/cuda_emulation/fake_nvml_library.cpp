// A library with NVML's names: two devices whose numbers a test knows.

extern "C" {

struct Memory {
  unsigned long long total, free, used;
};

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static char devices[2];
  *device = devices + index;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, unsigned type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : 0;
  return 0;
}
int nvmlDeviceGetTemperature(void*, unsigned, unsigned* degrees) {
  *degrees = 41;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  memory->total = 1000, memory->free = 400, memory->used = 600;
  return 0;
}

}  // extern "C"
