"""Google's own client reads the model server."""

import functools
import unittest

from google import genai
from google.genai import errors, types

from server import ARGUMENTS, KEY, SAID, THOUGHT, last_request, start


@functools.cache
def client() -> genai.Client:
    options = types.HttpOptions(base_url=start(), api_version="v1beta")
    return genai.Client(api_key=KEY, http_options=options, vertexai=False)


def stream(model: str) -> list[types.GenerateContentResponse]:
    return list(client().models.generate_content_stream(model=model, contents="hi"))


def parts(model: str) -> list[types.Part]:
    return [part for chunk in stream(model) for part in chunk.candidates[0].content.parts]


class Google(unittest.TestCase):
    def test_text_streams_with_usage(self):
        chunks = stream("says")
        self.assertEqual("".join(chunk.text for chunk in chunks), SAID)
        usage = chunks[-1].usage_metadata
        self.assertEqual((usage.prompt_token_count, usage.candidates_token_count), (135, 20))
        self.assertEqual(usage.cached_content_token_count, 30)
        self.assertEqual(chunks[-1].candidates[0].finish_reason, types.FinishReason.STOP)
        request = last_request()
        self.assertEqual((request["path"], request["query"]), ("/v1beta/models/says:streamGenerateContent", {"alt": "sse"}))
        self.assertEqual(request["headers"]["x-goog-api-key"], KEY)

    def test_text_comes_whole(self):
        self.assertEqual(client().models.generate_content(model="says", contents="hi").text, SAID)

    def test_thinking_is_marked_and_its_signature_follows(self):
        came = parts("thinks")
        self.assertEqual("".join(part.text for part in came if part.thought), THOUGHT)
        self.assertEqual("".join(part.text for part in came if not part.thought), "High at noon.")
        self.assertEqual([part.thought_signature for part in came if part.thought_signature], [b"signed"])

    def test_calls_have_whole_arguments(self):
        calls = [part.function_call for part in parts("calls") if part.function_call]
        calls = [(call.id, call.name, call.args) for call in calls]
        self.assertEqual(calls, [("call_1", "tide_at", ARGUMENTS), ("call_2", "now", {})])

    def test_an_answer_that_ran_out_says_so(self):
        self.assertEqual(stream("runs-out")[-1].candidates[0].finish_reason, types.FinishReason.MAX_TOKENS)

    def test_refusals_are_the_clients_own_exceptions(self):
        for model, exception, code, status in [
            ("denied", errors.ClientError, 400, "INVALID_ARGUMENT"),
            ("limited", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
            ("overloaded", errors.ServerError, 503, "UNAVAILABLE"),
            ("unknown", errors.ClientError, 404, "NOT_FOUND"),
        ]:
            with self.subTest(model), self.assertRaises(exception) as refused:
                stream(model)
            self.assertEqual((refused.exception.code, refused.exception.status), (code, status))

    def test_an_error_inside_is_an_exception(self):
        with self.assertRaises(errors.APIError) as failed:
            stream("fails-inside")
        self.assertEqual(failed.exception.code, 503)

    def test_a_reset_inside_a_call_is_an_exception(self):
        with self.assertRaisesRegex(Exception, "reset by peer"):
            stream("breaks-inside")

    def test_vectors_come_for_each_input(self):
        config = types.EmbedContentConfig(output_dimensionality=16)
        answer = client().models.embed_content(model="embeds", contents=["the tide", "the cat"], config=config)
        self.assertEqual([len(row.values) for row in answer.embeddings], [16, 16])
        self.assertEqual(last_request()["path"], "/v1beta/models/embeds:batchEmbedContents")

    def test_models_are_listed(self):
        self.assertEqual([model.name for model in client().models.list()], ["models/tide-large", "models/tide-small"])
