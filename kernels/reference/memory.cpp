// Memory, plain copies and the sizes of layouts.

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/reference/layout.h"
#include "kernels/reference/reference_backend.h"

namespace grokd::kernels {

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<reference::ReferenceBackend>(); }

namespace reference {

Buffer ReferenceBackend::allocate(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* data = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment));
  std::memset(data, 0, bytes);
  return {data, bytes, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

void ReferenceBackend::upload(void* device, const void* host, std::size_t bytes) {
  std::memcpy(device, host, bytes);
}

void ReferenceBackend::download(void* host, const void* device, std::size_t bytes) {
  std::memcpy(host, device, bytes);
}

std::size_t ReferenceBackend::code_bytes(int rows, int cols, int) const {
  return sizeof(std::int16_t) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
}

void ReferenceBackend::read_codes(const Quantised& x, std::int16_t* codes) {
  std::copy_n(code_row(x, 0), static_cast<std::ptrdiff_t>(x.rows) * x.cols, codes);
}

std::size_t ReferenceBackend::kv_page_bytes(int kv_heads, int head_size, KvType type) const {
  return Page::bytes(kv_heads, head_size, type);
}

void ReferenceBackend::read_kv(const KvLayer& kv, std::int32_t page, int count, std::int16_t* key_codes,
                               float* key_scales, std::int16_t* value_codes, float* value_scales) {
  const Page source = Page::at(kv, page);
  const auto scales = static_cast<std::ptrdiff_t>(count) * kv.kv_heads;
  for (std::ptrdiff_t i = 0; i < scales * kv.head_size; ++i) {
    key_codes[i] = source.key_codes[i];
    value_codes[i] = source.value_codes[i];
  }
  std::copy_n(source.key_scales, scales, key_scales);
  std::copy_n(source.value_scales, scales, value_scales);
}

}  // namespace reference
}  // namespace grokd::kernels
