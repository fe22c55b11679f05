"""Fails on a breach of the tree's rules: who may include whom, where heavy headers may stand, sizes, page links,
routes without a description.

    check_layout.py ROOT

Each breach is one line, `file:line: what`. The tables below are the rules.
"""
import pathlib
import re
import subprocess
import sys

# Which folders' headers, and which libraries, the files of a folder may include. Standard headers are free.
FOLDERS = {
    "kernels": {"kernels"},
    "api": {"api"},
    "engine": {"engine", "kernels"},
    "service": {"service", "api", "engine", "kernels"},
}
LIBRARIES = {
    "kernels": set(),
    "api": {"nlohmann"},
    "engine": {"nlohmann", "sentencepiece", "xxhash"},
    "service": {"boost", "prometheus", "cli11", "spdlog"},
}
# Allowed in one subfolder only.
LIBRARIES_BELOW = {
    "kernels/cuda": {"cuda", "nccl"},
    "kernels/mpi": {"mpi"},
    "service/cli": {"nlohmann"},  # reports of the tools; the wire format is the affair of api alone
}
# Folders whose headers nobody else includes, so that they may include what is slow to compile.
PRIVATE = ("kernels/cuda",)
# Slow to compile or ours alone to know: only in .cpp and .cu files, and in headers of private folders.
HEAVY = {
    "engine": {"nlohmann", "sentencepiece", "xxhash"},
    "kernels": {"cuda", "nccl", "mpi"},
    "service": {"prometheus", "cli11", "spdlog"},
}
HEAVY_HEADERS = re.compile(r"^boost/(beast|asio/(ssl|spawn)|asio\.hpp|json|url|program_options)")

LIBRARY_OF = [
    (re.compile(r"^nlohmann/"), "nlohmann"),
    (re.compile(r"^sentencepiece"), "sentencepiece"),
    (re.compile(r"^xxhash\.h"), "xxhash"),
    (re.compile(r"^boost/"), "boost"),
    (re.compile(r"^prometheus/"), "prometheus"),
    (re.compile(r"^CLI/"), "cli11"),
    (re.compile(r"^(spdlog|fmt)/"), "spdlog"),
    (re.compile(r"^(cuda|cublas|curand|nv|cub/|thrust/|cooperative_groups)"), "cuda"),
    (re.compile(r"^nccl"), "nccl"),
    (re.compile(r"^mpi\.h"), "mpi"),
]
# Of the operating system and the compiler: as free as the standard library.
SYSTEM = re.compile(
    r"^(sys/|netinet/|arpa/|linux/|x86intrin\.h|[a-z]*mmintrin\.h|cpuid\.h|arm_neon\.h|arm_sve\.h|unistd\.h|fcntl\.h|"
    r"sched\.h|pthread\.h|signal\.h|poll\.h|cxxabi\.h|dlfcn\.h|execinfo\.h|time\.h|malloc\.h|spawn\.h|stdlib\.h)"
)
STANDARD = re.compile(r"^[a-z_0-9]+$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
MAX_FILE_BYTES = 40 << 20
MAX_SOURCE_LINES = 500


def tracked_files(root):
    """Files of the tree as git knows them, new ones included; without git, all but build folders."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.decode().split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if path.is_file() and not re.match(r"(\.git|build)", str(path.relative_to(root)))]
    return [pathlib.PurePosixPath(name) for name in sorted(names) if (root / name).is_file()]


def library_of(header):
    return next((name for pattern, name in LIBRARY_OF if pattern.search(header)), None)


def check_include(file, header):
    """The rule that `#include header` in `file` breaks, or None."""
    folder, top = file.parts[0], header.split("/")[0]
    library = library_of(header)
    if library:
        allowed = set(LIBRARIES[folder])
        for below, more in LIBRARIES_BELOW.items():
            if str(file).startswith(below + "/"):
                allowed |= more
        if library not in allowed:
            return f"{folder} may not use {library}"
        private = str(file).startswith(tuple(folder + "/" for folder in PRIVATE))
        heavy = library in HEAVY.get(folder, ()) and not header.endswith("_fwd.hpp")  # names without definitions
        if file.suffix in (".h", ".cuh") and not private and (heavy or HEAVY_HEADERS.match(header)):
            return f"<{header}> is heavy: only in a .cpp"
        return None
    if top in FOLDERS and "/" in header:
        for folder_inside in PRIVATE:
            if header.startswith(folder_inside + "/") and not str(file).startswith(folder_inside + "/"):
                return f"only {folder_inside} may include its headers"
        return None if top in FOLDERS[folder] else f"{folder} may not include {top}"
    if SYSTEM.match(header) or STANDARD.match(header):
        return None
    return f"<{header}> is on no list of tests/layout/check_layout.py"


def check_source(root, file):
    lines = (root / file).read_text(encoding="utf-8").splitlines()
    breaches = []
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, header = match.group(1) == '"', match.group(2)
        breach = check_include(file, header)
        if not breach and quoted and not (root / header).is_file() and not header.endswith(".inc"):
            breach = f'"{header}" is not a path from the root of the tree'
        if breach:
            breaches.append(f"{file}:{number}: {breach}")
    if file.suffix == ".h" and "#pragma once" not in lines:
        breaches.append(f"{file}:1: no #pragma once")
    if len(lines) > MAX_SOURCE_LINES:
        breaches.append(f"{file}:{len(lines)}: over {MAX_SOURCE_LINES} lines; a file is about one thing")
    return breaches


def check_links(root, file):
    """Relative links of a Markdown page lead somewhere."""
    breaches = []
    for number, line in enumerate((root / file).read_text(encoding="utf-8").splitlines(), 1):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"`[^`]*`", "", line)):
            if not re.match(r"[a-z]+:", target) and not (root / file.parent / target).exists():
                breaches.append(f"{file}:{number}: link to {target}, which is not there")
    return breaches


def check_routes(root):
    """The table of routes and openapi.yaml list the same methods and paths."""
    table, description = root / "service/routes.cpp", root / "openapi.yaml"
    if not table.exists():
        return []
    served = set(re.findall(r'^    \{"(\w+)", "([^"]+)", handlers::', table.read_text(), re.M))
    paths = description.read_text().split("\npaths:\n")[1].split("\ncomponents:")[0]
    described = {(method.upper(), path) for path, body in re.findall(r"^  (/\S*):\n((?:    .*\n|\n)*)", paths, re.M)
                 for method in re.findall(r"^    (get|post|put|delete):", body, re.M)}
    return [f"service/routes.cpp:1: {method} {path} is not in openapi.yaml" for method, path in served - described] + \
        [f"openapi.yaml:1: {method} {path} is no route of service/routes.cpp" for method, path in described - served]


def check(root):
    root = pathlib.Path(root).resolve()
    breaches, files = check_routes(root), tracked_files(root)
    for file in files:
        size = (root / file).stat().st_size
        if size > MAX_FILE_BYTES:
            breaches.append(f"{file}:1: {size >> 20} MiB; no file may pass {MAX_FILE_BYTES >> 20} MiB")
        if file.parts[0] in FOLDERS and file.suffix in SOURCE_SUFFIXES:
            breaches += check_source(root, file)
        if file.suffix == ".md":
            breaches += check_links(root, file)
    return breaches, len(files)


if __name__ == "__main__":
    found, count = check(sys.argv[1])
    print("\n".join(found) if found else f"{count} files keep the rules")
    sys.exit(bool(found) or count == 0)
