// Embedding, RMSNorm, residual and the quantiser of rows (docs/numerics.md, sections 3 and 5).

#include <algorithm>

#include "kernels/cuda/block.h"
#include "kernels/cuda/code_rows.h"
#include "kernels/cuda/cuda_backend.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kRowThreads = 256;

/// Threads for a row: at least the 64 lanes.
unsigned threads_for(std::ptrdiff_t columns) {
  const int wanted = round_up(ceil_div(static_cast<int>(columns), 4), kWarp);
  return static_cast<unsigned>(std::clamp(wanted, kLanes, kRowThreads));
}

struct EmbedJob {
  const std::int32_t* ids;
  const float* table;
  std::ptrdiff_t table_stride;
  float multiplier;
  float* h;
  std::ptrdiff_t h_stride;
  int width;
};

__global__ void embed_rows(EmbedJob job) {
  const std::ptrdiff_t row = blockIdx.x;
  const float* from = job.table + job.ids[row] * job.table_stride;
  float* to = job.h + row * job.h_stride;
  for (int i = thread(); i < job.width; i += threads()) to[i] = from[i] * job.multiplier;
}

/// Residual, norm and quantiser of one row; each part only where its pointers are set.
struct NormJob {
  const float* y = nullptr;  // added to h after its norm
  std::ptrdiff_t y_stride = 0;
  const float* post_gain = nullptr;  // null: y is added as it is
  float* h = nullptr;
  std::ptrdiff_t h_stride = 0;
  const std::int32_t* rows = nullptr;  // of h; null: all in order
  int width = 0;
  float eps = 0;
  const float* gain = nullptr;  // null: neither norm nor codes are wanted
  float* normed = nullptr;
  std::ptrdiff_t normed_stride = 0;
  CodeRows out;
};

/// 1 / sqrt(mean of squares + eps), for every thread; NaN where the sum is not finite. lanes: [64].
__device__ float rms_factor(const float* x, int n, float eps, const SharedArray<float>& lanes) {
  __syncthreads();
  if (thread() < kLanes) {
    float sum = 0;
    for (int i = thread(); i < n; i += kLanes) sum = __fmaf_rn(x[i], x[i], sum);
    lanes[thread()] = sum;
  }
  __syncthreads();
  if (warp() == 0) {
    const float sum = halve_lanes(lanes[lane()], lanes[lane() + kWarp]);
    __syncwarp();
    if (lane() == 0) lanes[0] = sum;
  }
  __syncthreads();
  const float sum = lanes[0];
  if (!isfinite(sum)) return not_a_number();
  return __fdiv_rn(1.0f, __fsqrt_rn(__fdiv_rn(sum, static_cast<float>(n)) + eps));
}

__device__ void add_residual(const NormJob& job, float* h, const SharedArray<float>& lanes) {
  const float* y = job.y + static_cast<std::ptrdiff_t>(blockIdx.x) * job.y_stride;
  if (job.post_gain == nullptr) {
    for (int i = thread(); i < job.width; i += threads()) h[i] = h[i] + y[i];
    return;
  }
  const float r = rms_factor(y, job.width, job.eps, lanes);
  for (int i = thread(); i < job.width; i += threads()) h[i] = h[i] + job.post_gain[i] * (y[i] * r);
}

__global__ void norm_rows(NormJob job) {
  SharedMemory shared;
  const auto lanes = shared.take<float>(kLanes);
  const auto room = shared.take<unsigned>(kReduceRoom);
  const std::ptrdiff_t row =
      job.rows == nullptr ? static_cast<std::ptrdiff_t>(blockIdx.x) : job.rows[blockIdx.x];
  float* h = job.h + row * job.h_stride;
  if (job.y != nullptr) add_residual(job, h, lanes);
  if (job.gain == nullptr) return;
  const float r = rms_factor(h, job.width, job.eps, lanes);  // its first barrier makes h visible
  const auto norm = [&](int i) { return job.gain[i] * (h[i] * r); };
  const int out_row = static_cast<int>(blockIdx.x);
  if (job.normed != nullptr) {
    float* normed = job.normed + out_row * job.normed_stride;
    for (int i = thread(); i < job.width; i += threads()) normed[i] = norm(i);
  }
  quantise_run(norm, job.width, job.out.run(out_row, 0), job.out.scale(out_row, 0), room);
}

__global__ void quantise_rows(const float* x, std::ptrdiff_t stride, CodeRows out) {
  SharedMemory shared;
  const auto room = shared.take<unsigned>(kReduceRoom);
  const int row = static_cast<int>(blockIdx.x), group = static_cast<int>(blockIdx.y);
  const float* run = x + row * stride + static_cast<std::ptrdiff_t>(group) * out.layout.group_cols();
  quantise_run([&](int i) { return run[i]; }, out.layout.group_cols(), out.run(row, group),
               out.scale(row, group), room);
}

void launch_norm(const NormJob& job, std::ptrdiff_t rows, cudaStream_t stream) {
  launch(norm_rows, static_cast<unsigned>(rows), threads_for(job.width),
         kLanes * sizeof(float) + kReduceRoom * sizeof(unsigned), stream, job);
}

}  // namespace

CodeRows code_rows(const Quantised& x) {
  return {reinterpret_cast<unsigned char*>(x.codes), x.scales, {x.cols, x.groups}};
}

void CudaBackend::embed(std::span<const TokenId> ids, MatrixView<const float> table, float multiplier,
                        MatrixView<float> h) {
  const cudaStream_t queue = stream();
  const auto* device_ids =
      reinterpret_cast<const std::int32_t*>(ids_.send(ids.data(), ids.size_bytes(), queue));
  launch(embed_rows, static_cast<unsigned>(ids.size()), threads_for(table.cols), 0, queue,
         EmbedJob{device_ids, table.data, table.stride, multiplier, h.data, h.stride,
                  static_cast<int>(table.cols)});
}

void CudaBackend::norm_quantise(MatrixView<const float> h, std::span<const std::int32_t> rows,
                                const float* gain, float eps, MatrixView<float> normed,
                                const Quantised& out) {
  const cudaStream_t queue = stream();
  NormJob job;
  job.h = const_cast<float*>(h.data);  // read only: there is no y
  job.h_stride = h.stride;
  if (!rows.empty()) {
    job.rows = reinterpret_cast<const std::int32_t*>(logit_rows_.send(rows.data(), rows.size_bytes(), queue));
  }
  job.width = static_cast<int>(h.cols);
  job.eps = eps;
  job.gain = gain;
  job.normed = normed.data;
  job.normed_stride = normed.stride;
  job.out = code_rows(out);
  launch_norm(job, rows.empty() ? h.rows : static_cast<std::ptrdiff_t>(rows.size()), queue);
}

void CudaBackend::residual_norm(MatrixView<const float> y, const float* gain, float eps,
                                MatrixView<float> h) {
  NormJob job;
  job.y = y.data;
  job.y_stride = y.stride;
  job.post_gain = gain;
  job.h = h.data;
  job.h_stride = h.stride;
  job.width = static_cast<int>(y.cols);
  job.eps = eps;
  launch_norm(job, y.rows, stream());
}

void CudaBackend::residual_norm_quantise(MatrixView<const float> y, const float* post_gain,
                                         MatrixView<float> h, const float* next_gain, float eps,
                                         MatrixView<float> normed, const Quantised& out) {
  NormJob job;
  job.y = y.data;
  job.y_stride = y.stride;
  job.post_gain = post_gain;
  job.h = h.data;
  job.h_stride = h.stride;
  job.width = static_cast<int>(y.cols);
  job.eps = eps;
  job.gain = next_gain;
  job.normed = normed.data;
  job.normed_stride = normed.stride;
  job.out = code_rows(out);
  launch_norm(job, y.rows, stream());
}

void CudaBackend::quantise(MatrixView<const float> x, const Quantised& out) {
  launch(quantise_rows, dim3(static_cast<unsigned>(x.rows), static_cast<unsigned>(out.groups)),
         threads_for(x.cols / out.groups), kReduceRoom * sizeof(unsigned), stream(), x.data, x.stride,
         code_rows(out));
}

}  // namespace grokd::kernels::cuda
