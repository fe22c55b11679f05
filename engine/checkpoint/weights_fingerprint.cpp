#include "engine/checkpoint/weights_fingerprint.h"

#include <algorithm>
#include <cstdio>

namespace grokd {
namespace {

/// FNV-1a.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (unsigned char byte : bytes) value_ = (value_ ^ byte) * 0x100000001b3ULL;
  }
  std::string hex8() const {
    char text[9];
    std::snprintf(text, sizeof(text), "%08x", static_cast<unsigned>(value_ ^ (value_ >> 32)));
    return text;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

std::string weights_fingerprint(const Checkpoint& checkpoint) {
  constexpr std::size_t kSampledBytes = 4096;
  Hash hash;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const TensorView first = tensor.arrays().front();
    hash.add(tensor.path);
    hash.add({reinterpret_cast<const char*>(first.data), std::min(kSampledBytes, first.bytes())});
  }
  return hash.hex8();
}

}  // namespace grokd
