"""Ollama's own client reads the model server."""

import functools
import unittest

import ollama

from server import ARGUMENTS, QUESTION, SAID, THOUGHT, start


@functools.cache
def client() -> ollama.Client:
    return ollama.Client(host=start())


def stream(model: str) -> list[ollama.ChatResponse]:
    return list(client().chat(model=model, messages=QUESTION, stream=True))


class Ollama(unittest.TestCase):
    def test_text_streams_with_usage(self):
        chunks = stream("says")
        self.assertEqual("".join(chunk.message.content for chunk in chunks), SAID)
        self.assertEqual([chunk.done for chunk in chunks], [False] * (len(chunks) - 1) + [True])
        self.assertEqual((chunks[-1].prompt_eval_count, chunks[-1].eval_count), (135, 20))

    def test_text_comes_whole(self):
        self.assertEqual(client().chat(model="says", messages=QUESTION).message.content, SAID)

    def test_thinking_is_apart(self):
        self.assertEqual("".join(chunk.message.thinking or "" for chunk in stream("thinks")), THOUGHT)

    def test_calls_have_whole_arguments(self):
        calls = [call.function for chunk in stream("calls") for call in chunk.message.tool_calls or []]
        self.assertEqual([(call.name, call.arguments) for call in calls], [("tide_at", ARGUMENTS), ("now", {})])

    def test_an_answer_that_ran_out_says_so(self):
        self.assertEqual(stream("runs-out")[-1].done_reason, "length")

    def test_refusals_are_the_clients_own_exception(self):
        for model, status in [("denied", 401), ("limited", 429), ("overloaded", 503), ("unknown", 404)]:
            with self.subTest(model), self.assertRaises(ollama.ResponseError) as refused:
                stream(model)
            self.assertEqual(refused.exception.status_code, status)

    def test_an_error_inside_is_an_exception(self):
        with self.assertRaises(ollama.ResponseError):
            stream("fails-inside")

    def test_a_reset_inside_a_call_is_an_exception(self):
        with self.assertRaisesRegex(Exception, "reset by peer"):
            stream("breaks-inside")

    def test_vectors_come_for_each_input(self):
        answer = client().embed(model="embeds", input=["the tide", "the cat"], dimensions=16)
        self.assertEqual([len(vector) for vector in answer.embeddings], [16, 16])

    def test_models_are_listed(self):
        self.assertEqual([model.model for model in client().list().models], ["tide-large", "tide-small"])
