#include "kernels/backend.h"

namespace grokd::kernels {

std::string Backend::pin(const Buffer&) { return ""; }  // a device's memory stays where it is

QuantisedBuffer Backend::allocate_quantised(int max_rows, int cols, int groups) {
  QuantisedBuffer q;
  q.codes = allocate(code_bytes(max_rows, cols, groups));
  q.scales = allocate(sizeof(float) * static_cast<std::size_t>(max_rows) * groups);
  q.max_rows = max_rows;
  q.cols = cols;
  q.groups = groups;
  return q;
}

}  // namespace grokd::kernels
