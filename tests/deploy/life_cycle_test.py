"""The systemd unit and the Kubernetes manifests: valid, and what they promise holds for the real program. Paths, ports,
flags and times are read from the files."""
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import kubernetes_validate
import pytest
import yaml

from grokd_server import DEMO_MODEL, ROOT, Server, free_port

UNIT = ROOT / "deploy/systemd/grokd.service"
MANIFESTS = ROOT / "deploy/k8s"
CUSTOM = {"ServiceMonitor", "InferencePool", "HTTPRoute", "LeaderWorkerSet"}  # Kubernetes itself has no schema of these
LONG = {"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": True, "stream": True, "n": 4, "seed": 1}
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="SKIPPED: no systemd-analyze here")


def objects():
    for file in sorted(MANIFESTS.rglob("*.yaml")):
        for number, document in enumerate(yaml.safe_load_all(file.read_text())):
            yield pytest.param(file, document, id=f"{file.relative_to(MANIFESTS)}:{number}")


def deployment():
    return yaml.safe_load((MANIFESTS / "base/deployment.yaml").read_text())


def container():
    return deployment()["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("file, document", list(objects()))
def test_every_object_keeps_the_kubernetes_schema(file, document):
    if document["kind"] == "Kustomization":
        for resource in document["resources"]:
            assert (file.parent / resource).exists(), resource
        listed = {resource for resource in document["resources"]} | {"kustomization.yaml"}
        assert listed >= {other.name for other in file.parent.glob("*.yaml")}, "a file that no kustomization names"
    elif document["kind"] in CUSTOM:
        assert "/v" in document["apiVersion"] and document["metadata"]["name"] and document["spec"]
    else:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_every_selector_finds_the_pods_and_every_port_has_a_name_there():
    labels = deployment()["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container()["ports"]}
    for document in (param.values[1] for param in objects()):
        spec = document.get("spec", {})
        if document["kind"] == "Service":
            assert spec["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        if document["kind"] in ("Deployment", "PodDisruptionBudget"):
            assert spec["selector"]["matchLabels"].items() <= labels.items()
        if document["kind"] == "NetworkPolicy":
            assert spec["podSelector"]["matchLabels"].items() <= labels.items()
            assert {port["port"] for rule in spec["ingress"] for port in rule["ports"]} <= ports


def flag(name):
    return next(argument.split("=", 1)[1] for argument in container()["args"] if argument.startswith(f"--{name}="))


def test_the_times_of_a_pods_end_fit_into_each_other():
    pod = deployment()["spec"]["template"]["spec"]
    sleep = int(container()["lifecycle"]["preStop"]["exec"]["command"][-1])
    noticed = container()["readinessProbe"]["periodSeconds"] * container()["readinessProbe"]["failureThreshold"]
    assert sleep > noticed
    assert pod["terminationGracePeriodSeconds"] >= sleep + float(flag("drain-timeout")) + 5
    unit = UNIT.read_text()
    drain = float(re.search(r"--drain-timeout (\d+)", unit).group(1))
    assert float(re.search(r"TimeoutStopSec=(\d+)", unit).group(1)) >= drain + 5


@pytest.fixture
def pod(program, tmp_path):
    """The container's command line on this machine: its paths and ports, mapped to ones that are here."""
    ports = {port["containerPort"]: free_port() for port in container()["ports"]}
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    mapped = {"--host=0.0.0.0": "--host=127.0.0.1", "--model=/models/packed": f"--model={DEMO_MODEL}",
              "--api-key-file=/etc/grokd/keys": f"--api-key-file={keys}"}
    for old, new in ports.items():
        mapped |= {f"--port={old}": f"--port={new}", f"--metrics-port={old}": f"--metrics-port={new}"}
    arguments = [mapped.get(argument, argument) for argument in container()["args"]]
    assert arguments[0] == "serve"
    names = {port["name"]: ports[port["containerPort"]] for port in container()["ports"]}

    started = []

    def start(*more):
        log = tmp_path / "pod.log"
        with open(log, "w") as output:
            process = subprocess.Popen([program, *arguments, *more], stdout=output, stderr=output)
        started.append(process)
        return process, names, log

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def probe(name, ports):
    """Whether the kubelet's GET would count as success."""
    ask = container()[name]["httpGet"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[ask['port']]}{ask['path']}",
                                    timeout=container()[name]["timeoutSeconds"]) as answer:
            return 200 <= answer.status < 400
    except OSError:
        return False


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def stream(port, body, result):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer secret"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            result.append(answer.read().decode())
    except urllib.error.HTTPError as error:
        result.append(f"{error.code} {error.read().decode()}")


def test_probes_and_drain_of_the_deployment_hold_for_the_program(pod):
    process, ports, log = pod("--backend", "reference", "--no-speculation")
    assert within(1, lambda: probe("livenessProbe", ports)), "the port is open in a second"
    assert within(60, lambda: probe("startupProbe", ports)), log.read_text()
    assert probe("readinessProbe", ports)
    with urllib.request.urlopen(f"http://127.0.0.1:{ports['metrics']}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    hpa = yaml.safe_load((MANIFESTS / "base/autoscaling.yaml").read_text())
    wanted = [metric["pods"]["metric"]["name"] for metric in hpa["spec"]["metrics"]]
    wanted += ["vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:cache_config_info"]
    for name in wanted:
        assert f"\n{name}{{" in text, name

    result = []
    client = threading.Thread(target=stream, args=(ports["http"], LONG, result))
    client.start()
    load = f"http://127.0.0.1:{ports['http']}/load"
    assert within(10, lambda: json.loads(urllib.request.urlopen(load, timeout=5).read())["running"] > 0)
    process.send_signal(signal.SIGTERM)  # after preStop
    assert within(container()["readinessProbe"]["periodSeconds"], lambda: not probe("readinessProbe", ports))
    assert process.poll() is None and probe("livenessProbe", ports), "it must not be killed while it drains"
    late = []
    stream(ports["http"], LONG, late)
    client.join()
    assert "[DONE]" in result[0] and '"error"' not in result[0], "the running stream ended as usual"
    assert late[0].startswith("503") and "shutting_down" in late[0]
    assert process.wait(10) == 0


class Manager:
    def __init__(self, folder):
        self.path = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def hears(self, word, seconds):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if word in self.socket.recv(4096).decode():
                    return True
            except TimeoutError:
                pass
        return False


def test_the_unit_hears_readiness_signs_of_life_and_the_end(program, tmp_path):
    unit, manager = UNIT.read_text(), Manager(tmp_path)
    assert "Type=notify" in unit and "ExecReload=/bin/kill -HUP $MAINPID" in unit
    watchdog = int(re.search(r"WatchdogSec=(\d+)", unit).group(1))
    flags = re.search(r"^ExecStart=\S+ serve --model \S+ (.*) \$GROKD_FLAGS$", unit, re.M).group(1).split()
    server = Server(program, tmp_path / "log", *flags, environment={"NOTIFY_SOCKET": manager.path,
                                                                   "WATCHDOG_USEC": str(watchdog * 1_000_000)})
    assert manager.hears("READY=1", 60)
    for _ in range(3):
        assert manager.hears("WATCHDOG=1", watchdog / 2)
    server.process.send_signal(signal.SIGHUP)
    assert within(10, lambda: '"reloaded"' in server.log.read_text())
    server.process.send_signal(signal.SIGTERM)
    assert manager.hears("STOPPING=1", 5)
    assert server.process.wait(10) == 0


@needs_systemd
def test_systemd_understands_the_unit_and_finds_it_confined(tmp_path):
    for folder in ("usr/local/bin", "etc/systemd/system"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/local/bin/grokd").write_text("#!/bin/sh\n")
    (tmp_path / "usr/local/bin/grokd").chmod(0o755)
    text = UNIT.read_text().replace("/usr/local/bin/grokd", str(tmp_path / "usr/local/bin/grokd"))
    unit = tmp_path / "grokd.service"
    unit.write_text(text)
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    complaints = [line for line in verified.stderr.splitlines() if "grokd.service" in line]
    assert complaints == []
    judged = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
                            capture_output=True, text=True, timeout=60)
    assert judged.returncode == 0, judged.stdout[-1500:]


@pytest.mark.parametrize("which", ["SEGV", "ABRT", "BUS"])
def test_a_crash_leaves_a_stack_and_a_readable_last_line(start_server, which):
    server = start_server("--log-level", "off")
    server.process.send_signal(getattr(signal, f"SIG{which}"))
    assert server.process.wait(20) == -getattr(signal, f"SIG{which}")
    lines = server.log.read_text().splitlines()
    assert re.match(rf"grokd [\d.]+: died of SIG{which}, .*; the stack is above", lines[-1]), lines[-3:]
    assert sum("grokd(" in line and "[0x" in line for line in lines) >= 2


def test_a_model_with_numbers_that_are_not_finite_never_becomes_ready(program, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(DEMO_MODEL, model)
    for file in sorted((model / "ckpt-0").iterdir()):
        raw = bytearray(file.read_bytes())
        if len(raw) > 100_000:  # a bfloat16 or float tensor full of NaN
            raw[50_000:60_000] = b"\xff" * 10_000
            file.write_bytes(raw)
    ended = subprocess.run([program, "serve", "--model", model, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "ready" not in ended.stderr and ended.stderr.count("\n") >= 1
