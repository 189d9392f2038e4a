"""Stand-ins for Grafana, Tempo and Docker, which no package registry has: they answer where the real ones do.

They read the files that were written for the real ones. Everything else about them can't be tried with these.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_SERVER: Final = """
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def serve(host, port, ready, bodies=None):
    begun = time.monotonic()
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            is_early = self.path == "/ready" and time.monotonic() - begun < 1
            self.send_response(503 if is_early else 200 if self.path == ready else 404)
            self.end_headers()
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append((self.path, len(body)))
            print(self.path, flush=True)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()
        def log_message(self, *_):
            pass
    ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
"""
GRAFANA: Final = (
    _SERVER
    + """
import configparser
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
ini = configparser.ConfigParser(interpolation=None)
ini.read(words["config"])
print("stand-in of Grafana on stdout", flush=True)
serve(ini["server"]["http_addr"], ini["server"]["http_port"], "/api/health")
"""
)
TEMPO: Final = (
    _SERVER
    + """
import yaml
config = yaml.safe_load(open(sys.argv[1].partition("=")[2]))
server, otlp = config["server"], config["distributor"]["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
spans = threading.Thread(target=serve, args=(*otlp.split(":"), "", []), daemon=True)
spans.start()
print("stand-in of Tempo on stderr", file=sys.stderr, flush=True)
serve(server["http_listen_address"], server["http_listen_port"], "/ready")
"""
)
DIES: Final = """
import sys
print("stand-in: can't open its database", flush=True)
sys.exit(3)
"""
SILENT: Final = "import time\nwhile True: time.sleep(0.05)\n"
DOCKER: Final = """
import os, pathlib, signal, subprocess, sys, time
import yaml
here, words = pathlib.Path(sys.argv[0]).parent, sys.argv[1:]
with open(here / "docker.log", "a") as log:
    print(*words, file=log)
assert words[0] == "compose"
if words[1] == "version":
    sys.exit()
assert words[1] == "--file"
services = yaml.safe_load(open(words[2]))["services"]
pids = here / "containers"
if words[3] == "up":
    for name in words[5:]:
        child = subprocess.Popen([here / f"image-{name}", *services[name]["command"]], start_new_session=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pids.write_text(str(child.pid))
elif words[3] == "down":
    os.kill(int(pids.read_text()), signal.SIGKILL)
    pids.unlink()
elif words[3] == "logs":
    print("prometheus-1 | a line of a container", flush=True)
    while True:
        time.sleep(0.05)
"""


def install(folder: Path, name: str, text: str) -> Path:
    """Write an executable Python program."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


def install_grafana(folder: Path, text: str = GRAFANA) -> Path:
    """Write a Grafana with what marks the folder of its own files."""
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "defaults.ini").write_text("")
    return install(folder / "bin", "grafana-server", text)
