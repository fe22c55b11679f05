#!/usr/bin/env bash
# From a bare Debian 12 and a clone to a server that answers: installs what is missing, builds, serves the demo
# model on 127.0.0.1:8080. Flags go to `grokd serve`: deploy/serve.sh --port 9000. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/packages.sh

install_missing "${build_packages[@]}"

say "building (the first time takes a few minutes)"
cmake --preset release --log-level=WARNING -DBUILD_TESTING=OFF
cmake --build --preset release --target grokd

host=127.0.0.1 port=8080 model=(--model deploy/demo-model)
previous=
for argument in "$@"; do
  case $previous in
    --host) host=$argument ;;
    --port) port=$argument ;;
  esac
  case $argument in
    --host=*) host=${argument#*=} ;;
    --port=*) port=${argument#*=} ;;
    --model | --model=*) model=() ;;
  esac
  previous=$argument
done
[ "$host" != 0.0.0.0 ] || host=127.0.0.1

cat <<TRY

The chat page:  http://$host:$port/
Try it:
  curl -sN http://$host:$port/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0,"stream":true}'
Stop it with Ctrl-C.

TRY
exec build/release/service/grokd serve "${model[@]}" "$@"
