#!/usr/bin/env bash
# Everything that needs a GPU, in under eight minutes: tests/gpu/check.sh
#   builds for the GPU of this machine; every op on the device against the reference; whole models on one device
#   and over all; a shard of Grok-1 with random weights, timed. The last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/../.."
passed=0 failed=0

check() {
  local name=$1
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

if ! nvidia-smi -L; then
  echo "tests/gpu/check.sh: no GPU or no driver here" >&2
  exit 1
fi
build=build/cuda
check "build" bash -c "cmake --preset cuda --log-level=WARNING -DBUILD_TESTING=ON -DCMAKE_CUDA_ARCHITECTURES=native &&
  cmake --build $build --parallel --target test_gpu gpu_bench grokd"
if [ "$failed" -eq 0 ]; then
  check "every op, and whole models" timeout 180 $build/tests/gpu/test_gpu
  check "the demo model through the program" bash -c "
    gpu=\$($build/service/grokd generate --model deploy/demo-model --prompt 'The old house' --temperature 0 --backend cuda) &&
    cpu=\$($build/service/grokd generate --model deploy/demo-model --prompt 'The old house' --temperature 0) &&
    [ \"\$gpu\" = \"\$cpu\" ] && echo \"\$gpu\""
  check "speed" timeout 150 $build/tests/gpu/gpu_bench
fi
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
