#!/usr/bin/env bash
# Every test, from a bare Debian 12 and a clone: deploy/test.sh [stage...]
#   unit     release build, every ctest entry
#   asan     api, engine and service tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     engine and kernel tests under ThreadSanitizer
#   emulator kernels of the CUDA backend on emulated devices, in plain C++
#   cuda     the CUDA backend built by nvcc, where it is installed
#   fuzz     each fuzz target for a short while (FUZZ_SECONDS for all of them together, 60)
#   deploy   systemd unit, manifests, alert rules, proxies and TLS with the finished program
#   clients  the official Python client, schemathesis, the curl lines of docs/api.md and a headless browser
# No stage named: all of them. What the machine can't have is skipped with a line that says SKIPPED.
# The last line is "N passed, N failed"; the exit status is 0 only when nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

jobs=${JOBS:-$(nproc)}
passed=0 failed=0
summary=()

skip() {
  printf '\n!! SKIPPED: %s\n' "$*"
  summary+=("SKIPPED $*")
}

# count STAGE PASSED FAILED
count() {
  passed=$((passed + $2)) failed=$((failed + $3))
  summary+=("$1: $2 passed, $3 failed")
}

# build PRESET TARGET...: configures and builds; a failure counts as one failed test.
build() {
  local preset=$1 werror=OFF
  shift
  # Instrumented code draws warnings about the libraries' own headers, so only builds without forbid them.
  case $preset in release | cuda) werror=ON ;; esac
  local mpi=OFF
  [ "$preset" != release ] || [ -n "$(missing_packages "${mpi_packages[@]}")" ] || mpi=ON
  say "building $preset: $*"
  if cmake --preset "$preset" --log-level=WARNING -DBUILD_TESTING=ON -DGROKD_WERROR=$werror -DGROKD_MPI=$mpi &&
    cmake --build --preset "$preset" --parallel "$jobs" --target "$@"; then
    return 0
  fi
  count "$preset build" 0 1
  return 1
}

# run_ctest STAGE PRESET [ctest argument...]
run_ctest() {
  local stage=$1 preset=$2 report total bad
  shift 2
  report=$(mktemp)
  say "testing $stage"
  ctest --preset "$preset" --parallel "$jobs" --timeout 300 --no-tests=error "$@" 2>&1 </dev/null | tee "$report" |
    grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test +#[0-9]+:.* Passed )'
  read -r bad total < <(sed -nE 's/.* ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$report")
  rm -f "$report"
  if [ -z "${total:-}" ]; then
    count "$stage" 0 1
  else
    count "$stage" $((total - bad)) "$bad"
  fi
}

stage_unit() {
  install_missing "${mpi_packages[@]}" || skip "groups of processes: Open MPI can't be installed here"
  build release all && run_ctest unit release -E '^cuda emulation:'
}

# Kernels of the device, executed in plain C++. What needs a GPU is in tests/gpu/check.sh.
stage_emulator() {
  build release test_cuda_emulation test_cuda_service && run_ctest emulator release -R '^cuda emulation:'
}

# nvcc shows that they compile and link.
stage_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    skip "the CUDA build: no nvcc here"
    return
  fi
  build cuda grokd || return
  if build/cuda/service/grokd --version >/dev/null; then count "cuda build" 1 0; else count "cuda build" 0 1; fi
}

stage_asan() { build asan test_api test_engine test_service && run_ctest asan asan -R '^(api|engine|service):' -E 'golden bits'; }

# The service is left out: the fences of Asio are not known to this sanitizer.
stage_tsan() { build tsan test_engine test_kernels && run_ctest tsan tsan -R '^(engine|kernels):' -E 'golden|float64'; }

stage_fuzz() {
  local names name seconds found good=0 bad=0
  if ! install_missing "${fuzz_packages[@]}"; then
    skip "fuzzing: clang can't be installed here"
    return
  fi
  mapfile -t names < <(find tests/fuzz -name '*_fuzz.cpp' -printf '%f\n' | sed 's/_fuzz\.cpp$//' | sort)
  build fuzz "${names[@]/#/fuzz_}" || return
  seconds=$((${FUZZ_SECONDS:-60} / ${#names[@]} + 1))
  for name in "${names[@]}"; do
    say "fuzzing $name for $seconds s"
    found=$(mktemp -d)  # new inputs go here, not into the corpus
    mkdir -p "tests/fuzz/corpus/$name"
    if build/fuzz/tests/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
      -artifact_prefix=build/fuzz/ "$found" "tests/fuzz/corpus/$name" </dev/null; then
      good=$((good + 1))
    else
      bad=$((bad + 1))
    fi
    rm -rf "$found"
  done
  count fuzz "$good" "$bad"
}

# run_pytest STAGE [pytest argument...]: the tests in tests/STAGE, with the finished program.
run_pytest() {
  local stage=$1 venv=build/clients-venv report good bad
  shift
  build release grokd || return
  if ! install_missing "${client_packages[@]}"; then
    skip "$stage tests: python3-venv can't be installed here"
    return
  fi
  [ -x $venv/bin/pip ] || /usr/bin/python3 -m venv $venv
  if ! $venv/bin/pip install -q --disable-pip-version-check -r "tests/$stage/requirements.txt"; then
    skip "$stage tests: no Python packages to be had from here"
    return
  fi
  say "testing $stage"
  report=$(mktemp)
  $venv/bin/python -B -m pytest -q -p no:cacheprovider "$@" "tests/$stage" --server build/release/service/grokd \
    </dev/null 2>&1 | tee "$report"
  good=$(sed -nE 's/.*\b([0-9]+) passed.*/\1/p' "$report" | tail -n 1)
  bad=$(tail -n 1 "$report" | grep -oE '[0-9]+ (failed|errors?)' | awk '{sum += $1} END {print sum + 0}')
  rm -f "$report"
  [ "${good:-0}" -gt 0 ] || bad=$((bad > 0 ? bad : 1))
  count "$stage" "${good:-0}" "$bad"
}

stage_clients() {
  install_missing "${browser_packages[@]}" || skip "browser tests: chromium can't be installed here"
  run_pytest clients
}

stage_deploy() {
  local package
  for package in "${deploy_packages[@]}"; do
    install_missing "$package" || skip "tests with $package: it can't be installed here"
  done
  run_pytest deploy -rs
}

stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(unit emulator cuda asan tsan fuzz deploy clients)
for stage in "${stages[@]}"; do
  if ! declare -F "stage_$stage" >/dev/null; then
    echo "deploy/test.sh: no stage called '$stage' (unit, emulator, cuda, asan, tsan, fuzz, deploy, clients)" >&2
    exit 2
  fi
done

if ! install_missing "${build_packages[@]}" "${test_packages[@]}"; then
  echo "deploy/test.sh: the packages above can't be installed" >&2
  echo "0 passed, 1 failed"
  exit 1
fi
for stage in "${stages[@]}"; do
  started=$SECONDS
  "stage_$stage"
  summary+=("$stage took $((SECONDS - started)) s")
done

say "summary"
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
