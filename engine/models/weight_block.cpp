#include "engine/models/weight_block.h"

#include "kernels/cpu/layout.h"

namespace grokd {

std::size_t block_bytes(const WeightBlock& b) {
  switch (b.kind) {
    case BlockKind::floats:
      return sizeof(float) * static_cast<std::size_t>(b.in) * static_cast<std::size_t>(b.out);
    case BlockKind::head:
      return kernels::HeadLayout{b.out, b.in}.bytes();
    case BlockKind::linear_out:
    case BlockKind::linear_in:
      return kernels::PanelLayout{b.in, b.out, b.groups}.bytes();
    case BlockKind::expert:
      return kernels::ExpertLayout{b.in, b.out, b.groups}.bytes();
  }
  return 0;
}

}  // namespace grokd
