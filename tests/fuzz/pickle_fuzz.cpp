// Any bytes as one file of a checkpoint: a tensor whose views lie inside the bytes, or a complaint.

#include <cstdlib>

#include "engine/checkpoint/xai_pickle.h"

namespace {

void check_inside(const grokd::TensorView& view, std::span<const std::byte> file) {
  if (!view.present()) return;
  if (view.data < file.data() || view.data + view.bytes() > file.data() + file.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const grokd::PickledTensor tensor = grokd::read_xai_pickle(file);
    check_inside(tensor.weight, file);
    check_inside(tensor.scales, file);
  } catch (const grokd::PickleError&) {
  }
  return 0;
}
