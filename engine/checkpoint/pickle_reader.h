#pragma once
// Runs the opcodes of a pickle (protocol 4) as far as tensors need them.

#include "engine/checkpoint/pickle_graph.h"

namespace grokd {

/// Executes the pickle that fills `data` and returns the value it leaves. Bytes and strings stay views of
/// `data`; memory does not depend on what the input claims. Throws PickleError.
PickleId run_pickle(std::span<const std::byte> data, PickleGraph& graph);

}  // namespace grokd
