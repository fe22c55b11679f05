# The Debian packages grokd needs, in one place. Sourced by serve.sh and test.sh, from the root of the tree.

build_packages=(
  g++ cmake ninja-build ccache mold pkg-config
  libboost1.81-dev nlohmann-json3-dev prometheus-cpp-dev libsentencepiece-dev libcli11-dev libspdlog-dev
  libxxhash-dev libssl-dev
)

# What the finished program needs: those of the image.
runtime_packages=(
  libsentencepiece0 libprometheus-cpp-core1.0 libspdlog1.10 libfmt9 libssl3 libxxhash0 libstdc++6
)

# Without these there is no test run at all.
test_packages=(git doctest-dev libboost-context1.81-dev python3 python3-numpy python3-sentencepiece curl)

# Without these a stage of test.sh, or part of one, is skipped, and says so.
mpi_packages=(libopenmpi-dev openmpi-bin)
fuzz_packages=(clang libclang-rt-14-dev)
client_packages=(python3-venv)
deploy_packages=(nginx-light haproxy prometheus openssl systemd)
browser_packages=(chromium chromium-driver fonts-dejavu-core)

# A clone in another folder finds what an earlier one compiled, precompiled headers included.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '\n== %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Prints those of the named packages that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

# Installs what is missing of the named packages, quietly; shows apt's words only when it fails.
install_missing() {
  local wanted log
  mapfile -t wanted < <(missing_packages "$@")
  [ ${#wanted[@]} -gt 0 ] || return 0
  say "installing ${wanted[*]}"
  log=$(mktemp)
  if as_root env DEBIAN_FRONTEND=noninteractive sh -c '
       apt-get -q -o DPkg::Lock::Timeout=120 update &&
       apt-get -q -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "$@"' sh "${wanted[@]}" \
       >"$log" 2>&1 </dev/null; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
}
