"""The protocol's own Python client against `tidegate mcp serve`."""

import asyncio
import json
import os
import subprocess
import tempfile
import unittest

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM = os.environ["TIDEGATE_BIN"]


class Serve(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def run_with(self, work):
        async def whole():
            server = StdioServerParameters(command=PROGRAM, args=["mcp", "serve", "--home", self.home.name])
            async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                return await work(session)

        return asyncio.run(asyncio.wait_for(whole(), 120))

    def test_tools_that_policy_leaves_are_listed_and_can_be_called(self):
        async def work(session):
            tools = await session.list_tools()
            answer = await session.call_tool("tools.echo", {"message": "by the tide"})
            return [tool.name for tool in tools.tools], answer

        names, answer = self.run_with(work)
        self.assertIn("tools.echo", names)
        self.assertIn("ask", names)
        self.assertNotIn("exec", names, "the usual profile has no commands")
        self.assertEqual(answer.content[0].text, "by the tide")

    def test_a_tool_that_is_not_there_is_refused(self):
        async def work(session):
            try:
                answer = await session.call_tool("exec", {"command": "true"})
            except Exception as refused:
                return str(refused)
            return answer.content[0].text

        self.assertIn("no tool", self.run_with(work))

    def test_the_agent_can_be_asked_and_its_conversations_read(self):
        async def work(session):
            asked = await session.call_tool("ask", {"message": "high water?", "session": "harbour"})
            listed = await session.call_tool("sessions_list", {})
            history = await session.call_tool("sessions_history", {"session": "harbour"})
            resources = await session.list_resources()
            text = await session.read_resource(resources.resources[0].uri)
            return asked, listed, history, text

        asked, listed, history, text = self.run_with(work)
        self.assertIn("high water?", asked.content[0].text)
        self.assertEqual([row["session"] for row in json.loads(listed.content[0].text)["sessions"]], ["harbour"])
        lines = json.loads(history.content[0].text)["lines"]
        self.assertEqual([line["from"] for line in lines], ["user", "assistant"])
        self.assertIn("high water?", text.contents[0].text)

    def test_beside_another_holder_of_the_home_it_answers_as_well(self):
        first = subprocess.Popen(
            [PROGRAM, "mcp", "serve", "--home", self.home.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            first.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            first.stdin.flush()
            self.assertEqual(json.loads(first.stdout.readline())["id"], 1)

            async def work(session):
                return await session.list_tools()

            self.assertGreater(len(self.run_with(work).tools), 3)
        finally:
            first.stdin.close()
            first.wait(timeout=60)
            first.stdout.close()


if __name__ == "__main__":
    unittest.main()
