"""deploy/grafana with Debian's Prometheus: rules that are sound, queries over metrics that exist, alerts that fire."""
import http.client
import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest

from grokd_server import ROOT, free_port

GRAFANA = ROOT / "deploy/grafana"
needs_prometheus = pytest.mark.skipif(not (shutil.which("prometheus") and shutil.which("promtool")),
                                      reason="SKIPPED: no prometheus here")


@needs_prometheus
@pytest.mark.parametrize("arguments", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"],
                                       ["check", "config", "prometheus.yaml"]])
def test_promtool_finds_nothing_wrong(arguments):
    ended = subprocess.run(["promtool", *arguments], cwd=GRAFANA, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def names_in(queries):
    return set(re.findall(r"\b(?:grokd_|vllm:)\w+", " ".join(queries)))


def test_dashboard_and_alerts_ask_only_for_metrics_that_a_server_has(start_server):
    server = start_server("--otlp-endpoint", "http://127.0.0.1:1")
    ask(server.port, {"prompt": "Hi", "max_tokens": 2})
    deadline = time.monotonic() + 10
    while "grokd_traces_total" not in (text := server.get("/metrics")):
        assert time.monotonic() < deadline
    present = set(re.findall(r"^(\S+?)(?:\{| )", text, re.M))
    dashboard = json.loads((GRAFANA / "dashboard.json").read_text())
    asked = names_in(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    asked |= names_in(re.findall(r"expr:(.*?)(?:for|labels):", (GRAFANA / "alerts.yaml").read_text(), re.S))
    assert len(asked) > 15
    assert asked - present == set()


def ask(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body))
    answer = connection.getresponse()
    return answer.status, answer.read()


class Prometheus:
    """deploy/grafana/prometheus.yaml, a hundred times as quick."""

    def __init__(self, folder, target_port):
        quick = {"15s": "200ms", "127.0.0.1:9108": f"127.0.0.1:{target_port}", "alerts.yaml": f"{folder}/alerts.yaml"}
        config = (GRAFANA / "prometheus.yaml").read_text()
        for slow, fast in quick.items():
            config = config.replace(slow, fast)
        (folder / "prometheus.yaml").write_text(config)
        rules = (GRAFANA / "alerts.yaml").read_text()
        (folder / "alerts.yaml").write_text(re.sub(r"for: \d+[ms]", "for: 300ms", rules).replace("> 45", "> 1"))
        self.port = free_port()
        with open(folder / "prometheus.log", "w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], stdout=log, stderr=log)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=5) as answer:
                return json.loads(answer.read())["data"]
        except OSError:
            return {}

    def value(self, query):
        found = self.get("query?query=" + urllib.parse.quote(query)).get("result", [])
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.get("alerts").get("alerts", [])
                if alert["state"] == "firing"}

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def eventually(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@needs_prometheus
def test_alerts_fire_on_injected_faults_and_not_before(start_server, tmp_path):
    metrics_port = free_port()
    server = start_server("--backend", "reference", "--slots", "1", "--max-waiting", "1", "--metrics-port", metrics_port)
    prometheus = Prometheus(tmp_path, metrics_port)
    try:
        ask(server.port, {"prompt": "Hi", "max_tokens": 2})
        assert eventually(lambda: prometheus.value('grokd_requests_total{code="200",route="/v1/completions"}') == 1)
        assert prometheus.value("up") == 1
        time.sleep(1.5)
        assert prometheus.firing() == set()

        # More than one slot and one place to wait can take.
        long = {"prompt": "Hi", "max_tokens": 100, "ignore_eos": True}
        crowd = [threading.Thread(target=ask, args=(server.port, long)) for _ in range(6)]
        for client in crowd:
            client.start()
        assert eventually(lambda: "GrokdRefusing" in prometheus.firing())
        for client in crowd:
            client.join()

        server.process.send_signal(signal.SIGSTOP)  # a machine that hangs: scrapes get no answer
        assert eventually(lambda: "GrokdDown" in prometheus.firing(), 30)
        server.process.send_signal(signal.SIGCONT)
        assert eventually(lambda: "GrokdDown" not in prometheus.firing(), 30)
    finally:
        server.process.send_signal(signal.SIGCONT)
        prometheus.stop()
