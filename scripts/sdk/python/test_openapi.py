"""schemathesis sends the real program what its OpenAPI document allows, and what it does not: no answer is a 5xx.

The seed is fixed and the number of examples capped, so that a run is the same every time and short.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import gateway

EXAMPLES = 20
SEED = 20
SECONDS = 240


class Document(unittest.TestCase):
    def test_nothing_that_is_sent_breaks_the_gateway(self):
        address, token = gateway.start_offline()
        program = pathlib.Path(sys.executable).with_name("schemathesis")
        words = [program, "run", f"{address}/api/v1/openapi.json"]
        words += ["--header", f"Authorization: Bearer {token}", "--checks", "not_a_server_error"]
        words += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", str(SEED)]
        # One thread: CPython 3.11 miscounts when two of them parse sources at once, and Hypothesis parses its own.
        words += ["--workers", "1", "--no-color"]
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
            done = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        selected, total = re.search(r"Selected: (\d+)/(\d+)", done.stdout).groups()
        self.assertEqual(selected, total)
        self.assertIn(f"Tested: {total}\n", done.stdout)
