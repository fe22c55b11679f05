#pragma once
// One file in Hugging Face's safetensors format: a JSON header, then the arrays one after the other.

#include "engine/checkpoint/stored_tensor.h"

namespace grokd {

/// The arrays of the file, in its order; the views point into `file`. Throws FileFormatError, whatever the
/// bytes are: for a header that is no header, arrays that overlap, leave gaps or end elsewhere than the file.
std::vector<StoredTensor> read_safetensors(std::span<const std::byte> file);

}  // namespace grokd
