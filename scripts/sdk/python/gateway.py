"""Gateways as child processes, each shared by all tests of a run."""

import atexit
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import server

MODELS = ["says", "calls", "runs-out", "limited", "rounds-chat", "rounds-stream", "rounds-kept", "rounds-responses"]


@functools.cache
def start() -> tuple[str, str]:
    """One with the model server behind it as the provider `played`; returns its address and its token."""
    played = {
        "baseUrl": f"{server.start()}/v1",
        "api": "openai-completions",
        "apiKey": server.KEY,
        "models": [{"id": model, "input": ["text", "image"]} for model in MODELS],
    }
    return run({
        "models": {"providers": {"played": played}, "retries": 0},
        "agents": {"defaults": {"model": {"primary": "played/says"}}},
    })


@functools.cache
def start_offline() -> tuple[str, str]:
    """One that nobody configured: whatever it is sent, no model server hears of it."""
    return run({})


def run(config: dict) -> tuple[str, str]:
    home = pathlib.Path(tempfile.mkdtemp())
    (home / "config.json5").write_text(json.dumps(config))
    program = [os.environ["TIDEGATE_BIN"], "gateway", "run", "--port", "0", "--json", "--home", str(home)]
    gateway = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    atexit.register(stop, gateway, home)
    for line in gateway.stdout:
        if found := re.search(r"127\.0\.0\.1:(\d+)", line):
            token = (home / "credentials" / "local-token").read_text().strip()
            return f"http://127.0.0.1:{found[1]}", token
    raise RuntimeError("the gateway ended before it listened")


def stop(gateway: subprocess.Popen, home: pathlib.Path) -> None:
    gateway.terminate()
    gateway.wait(timeout=30)
    gateway.stdout.close()
    shutil.rmtree(home, ignore_errors=True)
