#pragma once
// Which dimension of each parameter is cut over which axis of the mesh: rules by the parameter's path, as in
// xAI's reference program.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/mesh.h"

namespace grokd {

enum class Axis { none, data, model };

/// One axis a dimension; dimensions past the end are whole. The scales of a quantised tensor have the spec of
/// its weight: where the inputs are cut, the scale groups are.
using PartitionSpec = std::vector<Axis>;

/// The first rule that fits. Throws ConfigError for a path that no rule knows.
PartitionSpec partition_spec(std::string_view path);

/// The part of an array that one device holds. A dimension too short to be cut (the one scale row of a matrix
/// whose groups are coarser than the ranks) stays whole.
std::vector<std::int64_t> slice_shape(const std::vector<std::int64_t>& shape, const PartitionSpec& spec,
                                      const Mesh& mesh);

/// "P(None, model)"
std::string spec_text(const PartitionSpec& spec);

}  // namespace grokd
