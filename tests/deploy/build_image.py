"""Runs the steps of a Dockerfile in debootstrap chroots, where no container engine is at hand, then tries the result.

    build_image.py [DOCKERFILE]        needs root, debootstrap and a network; takes minutes

Understands what our files use: FROM debian:12-slim [AS], SHELL, WORKDIR, ENV, COPY [--from], RUN, USER, EXPOSE, ENTRYPOINT,
CMD. The image's program then serves the demo model as the image's user, on a root it cannot write to."""
import fnmatch
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


def instructions(text):
    """(word, rest) of each instruction, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def ignored(path):
    patterns = (ROOT / ".dockerignore").read_text().split()
    return any(fnmatch.fnmatch(part, pattern.replace("**/", "")) for pattern in patterns for part in
               (path, *path.split("/"))) or any(path.startswith(pattern + "/") for pattern in patterns)


class Stage:
    def __init__(self, base, folder):
        self.root, self.shell, self.folder = folder, ["/bin/sh", "-c"], "/"
        self.environment, self.user, self.entrypoint, self.command = dict(ENVIRONMENT), None, [], []
        subprocess.run(["cp", "-a", base, folder], check=True)

    def chroot(self, command, user=None):
        return ["chroot", *(["--userspec", user] if user else []), str(self.root), "env", "-i",
                *(f"{name}={value}" for name, value in self.environment.items()),
                "/bin/sh", "-c", 'cd "$0" && exec "$@"', self.folder, *command]

    def run(self, command):
        subprocess.run(["mount", "--bind", "/proc", self.root / "proc"], check=True)
        try:
            subprocess.run(self.chroot([*self.shell, command], self.user), check=True, stdin=subprocess.DEVNULL)
        finally:
            subprocess.run(["umount", "-l", self.root / "proc"], check=True)

    def copy(self, sources, target, origin):
        target = self.root / str(pathlib.PurePosixPath(self.folder) / target).lstrip("/")
        for source in sources:
            from_path = origin / source.lstrip("/")
            if from_path.is_dir():
                files = subprocess.run(["git", "-c", "safe.directory=*", "-C", from_path, "ls-files", "-z", "--cached",
                                        "--others", "--exclude-standard"], check=True, capture_output=True).stdout
                for name in filter(None, files.decode().split("\0")):
                    if not ignored(name) and (from_path / name).is_file():
                        (target / name).parent.mkdir(parents=True, exist_ok=True)
                        shutil.copy2(from_path / name, target / name)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(from_path, target)


def build(dockerfile, work):
    base = work / "debian"
    subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", base], check=True,
                   stdout=subprocess.DEVNULL)
    # The machine's own way to packages: Debian's sources, names, certificates.
    (base / "etc/apt/sources.list").unlink(missing_ok=True)
    for file in pathlib.Path("/etc/apt/sources.list.d").glob("debian*"):
        shutil.copy2(file, base / "etc/apt/sources.list.d")
    for file in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(pathlib.Path("/") / file, base / file)
    stages = {}
    for word, rest in instructions(dockerfile.read_text()):
        print("--", word, rest, flush=True)
        if word == "FROM":
            parts = rest.split()
            assert parts[0] == "debian:12-slim", f"{parts[0]} can't be made here"
            stage = Stage(base, work / f"stage-{len(stages)}")
            stages[parts[2] if len(parts) == 3 else "last"] = stage
        elif word == "SHELL":
            stage.shell = json.loads(rest)
        elif word == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            stage.environment |= dict(part.split("=", 1) for part in rest.split())
        elif word == "COPY":
            *sources, target = rest.split()
            origin = ROOT
            if sources[0].startswith("--from="):
                origin = stages[sources.pop(0).split("=")[1]].root
            stage.copy(sources, target, origin)
        elif word == "RUN":
            stage.run(rest)
        elif word == "USER":
            stage.user = rest
        elif word in ("ENTRYPOINT", "CMD"):
            setattr(stage, "entrypoint" if word == "ENTRYPOINT" else "command", json.loads(rest))
        else:
            assert word == "EXPOSE", f"{word} is not understood"
    return base, stage


def tree_mb(folder):
    return int(subprocess.run(["du", "-smx", folder], check=True, capture_output=True, text=True).stdout.split()[0])


def try_out(stage, port):
    """The image's own command, with its model at /model, as its user, on a read-only root."""
    subprocess.run(["cp", "-r", ROOT / "deploy/demo-model", stage.root / "model"], check=True)
    subprocess.run(["mount", "--bind", stage.root, stage.root], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", stage.root], check=True)
    server = subprocess.Popen(stage.chroot([*stage.entrypoint, *stage.command, "--port", str(port)], stage.user))
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                    break
            except OSError:
                assert server.poll() is None, "the server ended"
                time.sleep(0.1)
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            print("answered:", json.loads(answer.read())["choices"][0]["text"])
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
        subprocess.run(["umount", "-l", stage.root], check=True)


def main():
    dockerfile = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "deploy/Dockerfile")
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("SKIPPED: needs root and debootstrap")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is mounted goes
    work = pathlib.Path(tempfile.mkdtemp(prefix="grokd-image-"))
    try:
        started = time.monotonic()
        base, stage = build(dockerfile, work)
        print(f"built in {time.monotonic() - started:.0f} s: {tree_mb(stage.root)} MB, {tree_mb(base)} of them the bare system")
        try_out(stage, 18997)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", work], check=True)


if __name__ == "__main__":
    main()
