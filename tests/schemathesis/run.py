"""Runs schemathesis on contract/openapi.yaml against the reference service: `make schemathesis`.

Usage: run.py REFERENCE-SERVICE [further arguments of `schemathesis run`]

Fails when schemathesis finds a difference, and when the requests did not reach every operation far
enough to mean something (REACHED). The service ends with this program.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "contract" / "openapi.yaml"
# Good for one service on loopback, which lives a minute.
TOKEN = "schemathesis-token"
# Seconds.
START_TIMEOUT = 30

# The runs that schemathesis.toml names. A live run has more events than a stream is read for.
STATES = [f"phase-{number}" for number in range(6)]
RUNS = {
    "finished": {},
    "live": {"states": STATES, "outcome": "never", "cancel": "ignore"},
    "refusing": {"states": STATES, "outcome": "never", "cancel": "refuse"},
}

# Answers that must have been seen at least once, by the reference service's name of the operation.
REACHED = {
    "getVersion": [200],
    "getWorkspace": [200, 401, 403],
    "createRun": [200, 201, 400, 401, 403, 409, 422],
    "getRun": [200, 401, 403, 404],
    "streamEvents": [200, 400, 401, 403, 404],
    "cancelRun": [200, 202, 401, 403, 404, 409],
    "unknown": [405],
}


def start(program, folder):
    """The service's process and its origin, once it listens."""
    port_file = folder / "port"
    paces = ["--queue-time", "0", "--provision-time", "0", "--run-time", "50ms", "--cancel-time", "20ms"]
    service = subprocess.Popen(
        [program, "--listen", "127.0.0.1:0", "--port-file", port_file, "--seed", "1", *paces],
        env={**os.environ, "REFERENCE_SERVICE_TOKEN": TOKEN},
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + START_TIMEOUT
    while not port_file.exists():
        if service.poll() is not None or time.monotonic() > deadline:
            service.kill()
            sys.exit("schemathesis: the reference service did not start")
        time.sleep(0.02)
    return service, f"http://127.0.0.1:{port_file.read_text().strip()}"


def ask(url, body=None, headers=None):
    """The JSON that is answered."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers or {}), timeout=10) as answer:
        return json.load(answer)


def make_runs(base_url):
    for run_id, simulate in RUNS.items():
        workload = {"image": "ghcr.io/acme/train:1.4", "simulate": {"runId": run_id, **simulate}}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Idempotency-Key": run_id,
        }
        ask(f"{base_url}/runs", {"workload": workload, "provider": "auto", "region": "auto"}, headers)


def try_out(base_url, folder, further):
    """schemathesis's exit code."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "schemathesis.toml")]
    command += ["run", str(DOCUMENT), "--url", base_url, *further]
    # In a folder of its own: it keeps notes where it runs.
    return subprocess.run(command, cwd=folder, env={**os.environ, "SCHEMATHESIS_TOKEN": TOKEN}).returncode


def not_reached(stats):
    """Prints what was answered, and returns what should have been and was not."""
    print("\nAnswers of the reference service, by operation and status:")
    missing = []
    for operation, statuses in REACHED.items():
        seen = stats["requests"].get(operation, {})
        print(f"  {operation:<13}", "  ".join(f"{count} x {status}" for status, count in sorted(seen.items())))
        missing += [f"{operation} {status}" for status in statuses if str(status) not in seen]
    if stats["authorizationOnVersion"]:
        missing.append("getVersion without a token")
    return missing


def main(program, *further):
    with tempfile.TemporaryDirectory(prefix="run-operator-schemathesis-") as folder:
        service, origin = start(program, pathlib.Path(folder))
        try:
            make_runs(f"{origin}/api/v1")
            code = try_out(f"{origin}/api/v1", folder, further)
            missing = not_reached(ask(f"{origin}/_control/stats"))
        finally:
            service.kill()
            service.wait()
    if missing and not code:
        print("schemathesis: these were never seen, so that nothing is proved of them:", ", ".join(missing))
    return code or int(bool(missing))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
