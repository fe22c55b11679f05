#include "engine/checkpoint/xai_pickle.h"

#include "engine/checkpoint/pickle_reader.h"

namespace grokd {
namespace {

TensorView array_of(const PickleGraph& graph, PickleId id, DType type, const char* what) {
  const PickleNode& node = graph.expect(id, PickleKind::array);
  if (!node.built) throw PickleError(std::string(what) + ": array without contents");
  if (node.array.dtype != type) {
    throw PickleError(std::string(what) + ": dtype is " + std::string(dtype_name(node.array.dtype)) +
                      ", not " + std::string(dtype_name(type)));
  }
  return node.array;
}

}  // namespace

PickledTensor read_xai_pickle(std::span<const std::byte> file) {
  PickleGraph graph;
  const PickleId root = run_pickle(file, graph);
  if (graph.at(root).kind == PickleKind::array) return {array_of(graph, root, DType::f32, "plain array"), {}};
  const PickleNode& object = graph.expect(root, PickleKind::quantized);
  if (!object.built) throw PickleError("quantised weight without contents");
  return {array_of(graph, object.weight, DType::i8, "weight"),
          array_of(graph, object.scales, DType::bf16, "scales")};
}

}  // namespace grokd
