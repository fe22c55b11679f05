// Any bytes as a safetensors file: arrays that lie inside the bytes, or a complaint.

#include <cstdlib>

#include "engine/checkpoint/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const grokd::StoredTensor& tensor : grokd::read_safetensors(file)) {
      if (!tensor.usable) continue;
      const std::byte* begin = tensor.view.data;
      if (begin < file.data() || begin + tensor.view.bytes() > file.data() + file.size()) std::abort();
    }
  } catch (const grokd::FileFormatError&) {
  }
  return 0;
}
