"""The model server as a child process, shared by all tests of a run; its turns are in turns.json, one model each."""

import atexit
import functools
import json
import os
import pathlib
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SAID = "The tide rises, 潮が満ちる, and falls."
THOUGHT = "They ask about the tide."
ARGUMENTS = {"place": "Brest", "days": [1, 2]}
QUESTION = [{"role": "user", "content": "hi"}]
# Any key is good: a turn refuses, the server does not.
KEY = "played"


@functools.cache
def start() -> str:
    """Starts the server once; returns its base URL."""
    record = pathlib.Path(tempfile.mkdtemp()) / "requests.jsonl"
    program = [os.environ["TIDEGATE_TESTKIT"], "model-server", "--port", "0"]
    options = ["--script", str(HERE.parent / "turns.json"), "--record", str(record)]
    server = subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True)
    atexit.register(stop, server, record)
    start.record = record
    return json.loads(server.stdout.readline())["baseUrl"]


def stop(server: subprocess.Popen, record: pathlib.Path) -> None:
    server.terminate()
    server.wait(timeout=10)
    server.stdout.close()
    record.unlink()
    record.parent.rmdir()


def last_request() -> dict:
    """The last request as the server saw it."""
    return json.loads(start.record.read_text().splitlines()[-1])
