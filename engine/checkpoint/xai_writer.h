#pragma once
// Writes one file of xAI's checkpoint, byte for byte as Python's pickle module writes it.

#include <optional>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/pickle_writer.h"

namespace grokd {

/// An array to write: one to three dimensions, contents asked for piece by piece so that any size fits.
struct ArraySource {
  DType dtype = DType::f32;  // f32, i8 or bf16
  std::vector<std::int64_t> shape;
  FillBytes fill;  // none: all zeros, as holes of the file
};

/// The contents of a view.
ArraySource array_source(const TensorView& view);

/// A plain f32 array, or an i8 array with bf16 scales. Returns the size of the file. Throws ConfigError when
/// it cannot be written.
std::uint64_t write_xai_tensor(const std::string& path, const ArraySource& weight,
                               const std::optional<ArraySource>& scales);

/// Bytes of the contents.
std::uint64_t array_bytes(const ArraySource& array);

}  // namespace grokd
