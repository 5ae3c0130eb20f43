"""Amazon's own client reads the model server: it checks every checksum of the binary stream, and signs."""

import functools
import json
import unittest

import boto3
import botocore.config
import botocore.exceptions

from server import ARGUMENTS, SAID, THOUGHT, last_request, start

QUESTION = [{"role": "user", "content": [{"text": "hi"}]}]


@functools.cache
def client():
    return boto3.client(
        "bedrock-runtime",
        endpoint_url=start(),
        region_name="us-east-1",
        aws_access_key_id="played",
        aws_secret_access_key="played",
        config=botocore.config.Config(retries={"total_max_attempts": 1}),
    )


def stream(model: str) -> list[tuple[str, dict]]:
    """The events, each with its name."""
    answer = client().converse_stream(modelId=model, messages=QUESTION)
    return [(name, event[name]) for event in answer["stream"] for name in event]


def deltas(model: str) -> list[dict]:
    return [event["delta"] for name, event in stream(model) if name == "contentBlockDelta"]


class Bedrock(unittest.TestCase):
    def test_text_streams_with_usage(self):
        self.assertEqual("".join(delta["text"] for delta in deltas("says")), SAID)
        events = dict(stream("says"))
        self.assertEqual(events["messageStop"]["stopReason"], "end_turn")
        usage = events["metadata"]["usage"]
        self.assertEqual((usage["inputTokens"], usage["outputTokens"]), (100, 20))
        self.assertEqual((usage["cacheReadInputTokens"], usage["cacheWriteInputTokens"]), (30, 5))
        request = last_request()
        self.assertRegex(request["headers"]["authorization"], "^AWS4-HMAC-SHA256 Credential=played/")
        self.assertEqual(request["body"]["messages"], QUESTION)

    def test_text_comes_whole(self):
        answer = client().converse(modelId="says", messages=QUESTION)
        self.assertEqual(answer["output"]["message"]["content"], [{"text": SAID}])

    def test_thinking_has_its_signature(self):
        thinking = [delta["reasoningContent"] for delta in deltas("thinks") if "reasoningContent" in delta]
        self.assertEqual("".join(piece.get("text", "") for piece in thinking), THOUGHT)
        self.assertEqual("".join(piece.get("signature", "") for piece in thinking), "c2lnbmVk")

    def test_thinking_may_be_hidden(self):
        self.assertEqual(deltas("hides")[0]["reasoningContent"]["redactedContent"], b"opaque")

    def test_calls_have_whole_arguments(self):
        calls = []
        for name, event in stream("calls"):
            if name == "contentBlockStart":
                use = event["start"]["toolUse"]
                calls.append([use["toolUseId"], use["name"], ""])
            elif name == "contentBlockDelta" and "toolUse" in event["delta"]:
                calls[-1][2] += event["delta"]["toolUse"]["input"]
        calls = [(id, name, json.loads(arguments)) for id, name, arguments in calls]
        self.assertEqual(calls, [("call_1", "tide_at", ARGUMENTS), ("call_2", "now", {})])

    def test_refusals_are_the_clients_own_exceptions(self):
        for model, code, status in [
            ("denied", "UnrecognizedClientException", 403),
            ("limited", "ThrottlingException", 429),
            ("overloaded", "ServiceUnavailableException", 503),
            ("unknown", "ResourceNotFoundException", 404),
        ]:
            with self.subTest(model), self.assertRaises(botocore.exceptions.ClientError) as refused:
                stream(model)
            self.assertEqual(refused.exception.response["Error"]["Code"], code)
            self.assertEqual(refused.exception.response["ResponseMetadata"]["HTTPStatusCode"], status)
        with self.assertRaises(client().exceptions.ThrottlingException):
            stream("limited")

    def test_an_error_inside_is_an_exception(self):
        with self.assertRaises(botocore.exceptions.EventStreamError) as failed:
            stream("fails-inside")
        self.assertEqual(failed.exception.response["Error"]["Code"], "serviceUnavailableException")

    def test_a_reset_inside_a_call_is_an_exception(self):
        with self.assertRaisesRegex(Exception, "reset by peer"):
            stream("breaks-inside")

    def test_pieces_may_be_of_any_size(self):
        self.assertEqual("".join(delta["text"] for delta in deltas("split")), "潮 in small pieces")
