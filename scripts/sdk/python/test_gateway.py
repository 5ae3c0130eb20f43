"""OpenAI's own client drives the real program: chat, streams, tools, images, responses, vectors, errors."""

import functools
import json
import unittest

import openai

import gateway
from server import ARGUMENTS, QUESTION, SAID, last_request

TOOL = {
    "type": "function",
    "function": {
        "name": "tide_at",
        "description": "High water at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
FLAT_TOOL = {"type": "function", **TOOL["function"]}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@functools.cache
def client(token: str | None = None) -> openai.OpenAI:
    address, own = gateway.start()
    return openai.OpenAI(base_url=f"{address}/v1", api_key=token or own, max_retries=0)


def complete(**asked):
    return client().chat.completions.create(**{"model": "tidegate:main", "messages": QUESTION, **asked})


def roles() -> list[str]:
    """Of the messages that the model was sent last, without the agent's own instructions."""
    return [message["role"] for message in last_request()["body"]["messages"] if message["role"] != "system"]


def called(call) -> tuple[str, dict]:
    return call.function.name, json.loads(call.function.arguments)


class Completions(unittest.TestCase):
    def test_an_agent_answers_whole_with_usage(self):
        completion = complete()
        choice = completion.choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), (SAID, "stop"))
        self.assertEqual((completion.usage.prompt_tokens, completion.usage.completion_tokens), (135, 20))
        self.assertEqual(completion.usage.prompt_tokens_details.cached_tokens, 30)

    def test_an_answer_streams_with_usage(self):
        options = {"include_usage": True}
        asked = {"model": "tidegate:main", "messages": QUESTION, "stream_options": options}
        with client().chat.completions.stream(**asked) as stream:
            completion = stream.get_final_completion()
        self.assertEqual(completion.choices[0].message.content, SAID)
        self.assertEqual(completion.usage.total_tokens, 155)

    def test_a_vendors_model_can_be_chosen_and_says_why_it_stopped(self):
        choice = complete(model="played/runs-out", max_tokens=9).choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), ("And then", "length"))
        self.assertEqual(last_request()["body"]["model"], "runs-out")

    def test_a_conversation_that_the_program_keeps_is_the_models(self):
        before = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
        complete(messages=[{"role": "system", "content": "be brief"}, *before, *QUESTION])
        self.assertEqual(roles(), ["user", "assistant", "user"])
        self.assertIn("be brief", json.dumps(last_request()["body"]["messages"]))

    def test_a_tool_of_the_program_is_called_and_its_result_answered(self):
        question = {"role": "user", "content": "high water?"}
        choice = complete(model="played/rounds-chat", messages=[question], tools=[TOOL]).choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        (call,) = choice.message.tool_calls
        self.assertEqual(called(call), ("tide_at", ARGUMENTS))
        result = {"role": "tool", "tool_call_id": call.id, "content": "at noon"}
        messages = [question, choice.message.model_dump(exclude_none=True), result]
        answer = complete(model="played/rounds-chat", messages=messages, tools=[TOOL]).choices[0]
        self.assertEqual((answer.message.content, answer.finish_reason), ("High at noon.", "stop"))
        self.assertEqual(roles(), ["user", "assistant", "tool"])

    def test_calls_stream_too(self):
        asked = {"model": "played/rounds-stream", "messages": QUESTION, "tools": [TOOL], "tool_choice": "required"}
        with client().chat.completions.stream(**asked) as stream:
            choice = stream.get_final_completion().choices[0]
        self.assertEqual(called(choice.message.tool_calls[0]), ("tide_at", ARGUMENTS))
        self.assertEqual((choice.finish_reason, choice.message.content), ("tool_calls", "Let me look."))
        self.assertEqual(last_request()["body"]["tool_choice"], "required")

    def test_a_result_finds_its_call_in_a_conversation_that_is_kept_here(self):
        asked = {"model": "played/rounds-kept", "user": "ann", "tools": [TOOL]}
        (call,) = complete(**asked).choices[0].message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "at noon"}
        answer = complete(**asked, messages=[result]).choices[0]
        self.assertEqual(answer.message.content, "High at noon.")
        self.assertEqual(roles(), ["user", "assistant", "tool"])
        self.assertIn("at noon", json.dumps(last_request()["body"]["messages"][-1]))

    def test_an_image_reaches_the_model(self):
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        complete(messages=[{"role": "user", "content": [{"type": "text", "text": "what is it?"}, image]}])
        self.assertIn(PIXEL, json.dumps(last_request()["body"]["messages"][-1]))

    def test_an_image_of_a_private_address_is_refused(self):
        image = {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/a.png"}}
        with self.assertRaises(openai.BadRequestError):
            complete(messages=[{"role": "user", "content": [image]}])

    def test_refusals_are_the_clients_own_exceptions(self):
        with self.assertRaises(openai.AuthenticationError):
            client("wrong").models.list()
        with self.assertRaises(openai.BadRequestError) as refused:
            complete(n=2)
        self.assertEqual(refused.exception.param, "n")
        for model in ["tidegate:nobody", "nobody/nothing"]:
            with self.subTest(model), self.assertRaises(openai.NotFoundError):
                complete(model=model)
        with self.assertRaises(openai.RateLimitError):
            complete(model="played/limited")


class Responses(unittest.TestCase):
    def test_an_agent_responds_whole(self):
        response = client().responses.create(model="tidegate:main", input="hi", instructions="be brief")
        self.assertEqual((response.output_text, response.status), (SAID, "completed"))
        self.assertEqual((response.usage.input_tokens, response.usage.output_tokens), (135, 20))

    def test_a_response_streams_as_events(self):
        with client().responses.stream(model="tidegate:main", input=QUESTION) as stream:
            kinds = [event.type for event in stream]
            response = stream.get_final_response()
        self.assertEqual(response.output_text, SAID)
        self.assertEqual(kinds[:4], [
            "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        ])
        self.assertEqual(kinds[-1], "response.completed")

    def test_a_function_is_called_and_its_output_answered_where_the_response_ended(self):
        asked = {"model": "played/rounds-responses", "tools": [FLAT_TOOL]}
        with client().responses.stream(input="high water?", **asked) as stream:
            first = stream.get_final_response()
        (call,) = [item for item in first.output if item.type == "function_call"]
        self.assertEqual((call.name, json.loads(call.arguments)), ("tide_at", ARGUMENTS))
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "at noon"}
        answer = client().responses.create(input=[output], previous_response_id=first.id, **asked)
        self.assertEqual(answer.output_text, "High at noon.")
        self.assertEqual(roles(), ["user", "assistant", "tool"])
        with self.assertRaises(openai.BadRequestError):
            client().responses.create(input="again", previous_response_id=first.id, **asked)

    def test_an_answer_that_ran_out_is_incomplete(self):
        response = client().responses.create(model="played/runs-out", input="hi")
        self.assertEqual((response.status, response.incomplete_details.reason), ("incomplete", "max_output_tokens"))


class Others(unittest.TestCase):
    def test_agents_and_models_are_listed(self):
        models = [model.id for model in client().models.list()]
        self.assertEqual(models[0], "tidegate:main")
        self.assertIn("played/says", models)
        self.assertEqual(client().models.retrieve("played/says").owned_by, "played")
        with self.assertRaises(openai.NotFoundError):
            client().models.retrieve("played/unheard-of")

    def test_vectors_come_as_numbers_and_packed(self):
        texts = ["the tide", "the cat"]
        packed = client().embeddings.create(model="played/embeds", input=texts)
        plain = client().embeddings.create(model="played/embeds", input=texts, encoding_format="float")
        self.assertEqual([len(item.embedding) for item in packed.data], [len(item.embedding) for item in plain.data])
        for one, other in zip(packed.data[0].embedding, plain.data[0].embedding):
            self.assertAlmostEqual(one, other, places=6)
        self.assertGreater(packed.usage.prompt_tokens, 0)
        with self.assertRaises(openai.NotFoundError):
            client().embeddings.create(model="unheard-of", input="x")
