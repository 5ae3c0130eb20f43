"""OpenAI's own client reads the model server: chat completions, responses, embeddings."""

import functools
import json
import unittest

import openai

from server import ARGUMENTS, KEY, QUESTION, SAID, THOUGHT, last_request, start


@functools.cache
def client() -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{start()}/v1", api_key=KEY, max_retries=0)


def complete(model: str):
    """The answer as the client puts it together from the stream."""
    options = {"include_usage": True}
    with client().chat.completions.stream(model=model, messages=QUESTION, stream_options=options) as stream:
        return stream.get_final_completion()


def respond(model: str):
    with client().responses.stream(model=model, input=QUESTION) as stream:
        return stream.get_final_response()


REFUSALS = [
    ("denied", openai.AuthenticationError, "invalid_api_key"),
    ("limited", openai.RateLimitError, "rate_limit_exceeded"),
    ("overloaded", openai.InternalServerError, "server_is_overloaded"),
    ("unknown", openai.NotFoundError, "model_not_found"),
]


class Completions(unittest.TestCase):
    def test_text_streams_with_usage(self):
        completion = complete("says")
        choice = completion.choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), (SAID, "stop"))
        self.assertEqual((completion.usage.prompt_tokens, completion.usage.completion_tokens), (135, 20))
        self.assertEqual(completion.usage.prompt_tokens_details.cached_tokens, 30)
        request = last_request()
        self.assertEqual(request["headers"]["authorization"], f"Bearer {KEY}")
        self.assertEqual(request["body"]["messages"], QUESTION)

    def test_text_comes_whole(self):
        completion = client().chat.completions.create(model="says", messages=QUESTION)
        self.assertEqual(completion.choices[0].message.content, SAID)

    def test_thinking_is_where_the_imitators_put_it(self):
        chunks = client().chat.completions.create(model="thinks", messages=QUESTION, stream=True)
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        self.assertEqual("".join(getattr(delta, "reasoning_content", "") for delta in deltas), THOUGHT)

    def test_calls_have_whole_arguments(self):
        choice = complete("calls").choices[0]
        calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls]
        self.assertEqual(calls, [("call_1", "tide_at", ARGUMENTS), ("call_2", "now", {})])
        self.assertEqual(choice.finish_reason, "tool_calls")

    def test_refusals_are_the_clients_own_exceptions(self):
        for model, exception, code in REFUSALS:
            with self.subTest(model), self.assertRaises(exception) as refused:
                complete(model)
            self.assertEqual(refused.exception.code, code)
            self.assertRegex(refused.exception.request_id, "^req_")

    def test_an_error_inside_is_an_exception(self):
        with self.assertRaises(openai.APIError) as failed:
            complete("fails-inside")
        self.assertEqual(failed.exception.code, "server_is_overloaded")

    def test_a_reset_inside_a_call_is_an_exception(self):
        for ask in (complete, respond):
            with self.assertRaises(openai.APIConnectionError):
                ask("breaks-inside")

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in client().models.list()], ["tide-large", "tide-small"])


class Responses(unittest.TestCase):
    def test_text_streams_with_usage(self):
        response = respond("says")
        self.assertEqual((response.output_text, response.status), (SAID, "completed"))
        self.assertEqual((response.usage.input_tokens, response.usage.output_tokens), (135, 20))
        self.assertEqual(response.usage.input_tokens_details.cached_tokens, 30)

    def test_text_comes_whole(self):
        self.assertEqual(client().responses.create(model="says", input="hi").output_text, SAID)

    def test_deltas_and_thinking_are_typed(self):
        text, thinking = "", ""
        for event in client().responses.create(model="thinks", input=QUESTION, stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.reasoning_summary_text.delta":
                thinking += event.delta
        self.assertEqual((text, thinking), ("High at noon.", THOUGHT))
        reasoning = respond("thinks").output[0]
        self.assertEqual(reasoning.summary[0].text, THOUGHT)
        self.assertEqual(reasoning.encrypted_content, "c2lnbmVk")

    def test_calls_have_whole_arguments(self):
        message, *calls = respond("calls").output
        self.assertEqual(message.content[0].text, "Let me look.")
        calls = [(call.call_id, call.name, json.loads(call.arguments)) for call in calls]
        self.assertEqual(calls, [("call_1", "tide_at", ARGUMENTS), ("call_2", "now", {})])

    def test_an_answer_that_ran_out_says_so(self):
        response = client().responses.create(model="runs-out", input="hi")
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_refusals_are_the_clients_own_exceptions(self):
        for model, exception, code in REFUSALS:
            with self.subTest(model), self.assertRaises(exception) as refused:
                respond(model)
            self.assertEqual(refused.exception.code, code)

    def test_an_error_inside_is_a_failed_response(self):
        events = list(client().responses.create(model="fails-inside", input="hi", stream=True))
        self.assertEqual((events[-1].type, events[-1].response.status), ("response.failed", "failed"))
        self.assertEqual(events[-1].response.error.code, "server_is_overloaded")


class Embeddings(unittest.TestCase):
    def test_vectors_come_for_each_input(self):
        answer = client().embeddings.create(model="embeds", input=["the tide", "the cat"], dimensions=16)
        self.assertEqual([len(row.embedding) for row in answer.data], [16, 16])
        self.assertEqual(last_request()["body"]["encoding_format"], "base64")
        plain = client().embeddings.create(
            model="embeds", input=["the tide", "the cat"], dimensions=16, encoding_format="float"
        )
        for packed, row in zip(answer.data, plain.data, strict=True):
            for one, other in zip(packed.embedding, row.embedding, strict=True):
                self.assertAlmostEqual(one, other, places=6)

    def test_refusals_are_the_clients_own_exceptions(self):
        with self.assertRaises(openai.RateLimitError):
            client().embeddings.create(model="limited", input="a")
