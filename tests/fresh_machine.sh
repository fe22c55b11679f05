#!/usr/bin/env bash
# Runs the README's two commands on a Debian 12 that has nothing: a debootstrap chroot with a clone of this commit.
#   tests/fresh_machine.sh [stage...]       stages go to deploy/test.sh; needs root, debootstrap and a network
# FRESH_ROOT names the folder (kept between runs if set, else a new one that is removed).
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
root=${FRESH_ROOT:-$(mktemp -d)}
clone=$root/root/clone

cleanup() {
  for mounted in dev proc sys; do umount -R -l "$root/$mounted" 2>/dev/null || true; done
  [ -n "${FRESH_ROOT:-}" ] || rm -rf --one-file-system "$root"
}
trap cleanup EXIT

if [ ! -x "$root/usr/bin/apt-get" ]; then
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >/dev/null
  # The machine's own way to packages: Debian's sources, names, certificates.
  rm -f "$root/etc/apt/sources.list"
  cp /etc/apt/sources.list.d/debian* "$root/etc/apt/sources.list.d/" 2>/dev/null || cp /etc/apt/sources.list "$root/etc/apt/"
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
fi
# Slave mounts: taking them away again must not reach the machine's own.
for mounted in dev proc sys; do
  mount --rbind "/$mounted" "$root/$mounted"
  mount --make-rslave "$root/$mounted"
done
rm -rf "$clone"
git clone -q "$source" "$clone"

# Run it in a subshell: it becomes the command, so that a background one gets the signals meant for it.
inside() { exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CI=true "$@" </dev/null; }

echo "== deploy/serve.sh"
started=$SECONDS
(inside /root/clone/deploy/serve.sh --port 18999) >"$root/serve.log" 2>&1 &
server=$!
until (inside bash -c 'exec 3<>/dev/tcp/127.0.0.1/18999 && printf "GET /readyz HTTP/1.0\r\nHost: x\r\n\r\n" >&3 && grep -q "\"ready\"" <&3') 2>/dev/null; do
  if ! kill -0 $server 2>/dev/null || [ $((SECONDS - started)) -gt 900 ]; then
    cat "$root/serve.log" >&2
    exit 1
  fi
  sleep 1
done
echo "ready after $((SECONDS - started)) s"
kill -TERM $server
wait $server || { echo "the server did not end cleanly" >&2; exit 1; }

echo "== deploy/test.sh $*"
started=$SECONDS
(inside /root/clone/deploy/test.sh "$@")
echo "took $((SECONDS - started)) s"
