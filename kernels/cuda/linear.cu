// linear (docs/numerics.md, section 4) and logits (section 5.9).

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tree.h"

namespace grokd::kernels::cuda {
namespace {

/// y_g of each output, to y itself where there is one group, else to parts [G, rows, out].
struct StoreOutputs {
  MatrixLayout matrix;
  CodeRows x;
  float* out;
  std::ptrdiff_t row_stride, group_stride;

  __device__ void operator()(const unsigned char* weights, int group, int row, int tile, int output,
                             long long first, long long second) const {
    const float* scales = reinterpret_cast<const float*>(weights + matrix.scale_offset()) +
                          static_cast<std::ptrdiff_t>(group) * matrix.padded_out();
    const float code_scale = *x.scale(row, group);
    float* to = out + group * group_stride + row * row_stride;
    const int n = tile * kTileOutputs + output;
    if (n < matrix.out) to[n] = __ll2float_rn(first) * (code_scale * scales[n]);
    if (n + 8 < matrix.out) to[n + 8] = __ll2float_rn(second) * (code_scale * scales[n + 8]);
  }
};

struct AddJob {
  const float* parts;  // [G, rows, out]
  int groups, rows, out;
  float* y;
  std::ptrdiff_t stride;
};

__global__ void add_groups(AddJob job) {
  const int n = static_cast<int>(blockIdx.x) * threads() + thread();
  const int row = static_cast<int>(blockIdx.y);
  if (n >= job.out) return;
  TreeSum sum;
  for (int g = 0; g < job.groups; ++g)
    sum.add(job.parts[(static_cast<std::ptrdiff_t>(g) * job.rows + row) * job.out + n]);
  job.y[row * job.stride + n] = sum.result();
}

struct LogitsJob {
  const unsigned char* weights;
  HeadLayout head;
  CodeRows x;
  int rows;
  float multiplier;
  SoftCap cap;
  float* logits;
  std::ptrdiff_t stride;
};

/// Outputs: 0 the high bytes of the embedding, 1 the low ones.
template <class Shape>
__global__ void __launch_bounds__(kMatmulThreads) multiply_head(LogitsJob job) {
  const MatrixLayout matrix = job.head.matrix();
  const DenseRows rows{job.weights, job.rows};
  const MatmulWork work = rows.work(static_cast<int>(blockIdx.y), Shape::kBlockRows);
  const int tile = static_cast<int>(blockIdx.x);
  const std::ptrdiff_t input = static_cast<std::ptrdiff_t>(tile) * matrix.input_tiles() * 2;
  const unsigned char* high = job.weights + input * kTileBytes + lane() * 16;
  const unsigned char* const weights[2] = {high, high + kTileBytes};
  const unsigned char* row_bytes[Shape::kRows];
  row_pointers<Shape>(rows, work, job.x, 0, row_bytes);
  const int tiles = matrix.input_tiles();
  TileSums<Shape> sums;
  multiply_tiles<Shape>(weights, 2 * kTileBytes, row_bytes, tiles * warp() / Shape::kSplits,
                        tiles * (warp() + 1) / Shape::kSplits, sums);
  const float* scales = reinterpret_cast<const float*>(job.weights + job.head.scale_offset());
  finish_tiles<Shape>(sums, [&](int, int r, int l, int bit, const long long(&results)[2][2]) {
    const int row = work.first_row + r * kTileRows + l % 4 * 2 + bit;
    if (row >= work.end_row) return;
    for (int half = 0; half < 2; ++half) {
      const int v = tile * kTileOutputs + l / 4 + half * 8;
      if (v >= job.head.vocab) continue;
      const long long sum = results[0][half] * 256 + results[1][half];
      const float y = __ll2float_rn(sum) * (*job.x.scale(row, 0) * scales[v]);
      job.logits[row * job.stride + v] = soft_cap(y * job.multiplier, job.cap);
    }
  });
}

template <class Shape>
void launch_head(const LogitsJob& job, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(job.head.matrix().output_tiles()),
                  static_cast<unsigned>(ceil_div(job.rows, Shape::kBlockRows)));
  launch(multiply_head<Shape>, grid, kMatmulThreads, Shape::kSharedBytes, stream, job);
}

}  // namespace

void CudaBackend::linear(const Quantised& x, const LinearWeights& w, MatrixView<float> y) {
  const cudaStream_t queue = stream();
  const MatrixLayout matrix{w.in, w.out, w.groups};
  const auto* weights = w.data.as<const unsigned char>();
  const CodeRows codes = code_rows(x);
  StoreOutputs store{matrix, codes, y.data, y.stride, 0};
  if (w.groups > 1) {
    const std::size_t part = static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(w.out);
    parts_.at_least(part * static_cast<std::size_t>(w.groups) * sizeof(float), queue);
    store = {matrix, codes, parts_.as<float>(), w.out, static_cast<std::ptrdiff_t>(part)};
  }
  with_shape(x.rows, [&](auto shape) {
    using Shape = decltype(shape);
    launch_multiply<Shape>(matrix, codes, DenseRows{weights, x.rows}, ceil_div(x.rows, Shape::kBlockRows),
                           store, queue);
  });
  if (w.groups == 1) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(w.out, kMatmulThreads)), static_cast<unsigned>(x.rows));
  launch(add_groups, grid, kMatmulThreads, 0, queue,
         AddJob{parts_.as<float>(), w.groups, x.rows, w.out, y.data, y.stride});
}

void CudaBackend::logits(const Quantised& x, const HeadWeights& head, float multiplier, float cap,
                         MatrixView<float> logits) {
  const LogitsJob job{head.data.as<const unsigned char>(),
                      {head.vocab, head.width},
                      code_rows(x),
                      x.rows,
                      multiplier,
                      make_soft_cap(cap),
                      logits.data,
                      logits.stride};
  if (x.rows <= kTileRows) return launch_head<MatmulShape<2, 1, 8>>(job, stream());
  launch_head<MatmulShape<2, 2, 8>>(job, stream());
}

}  // namespace grokd::kernels::cuda
