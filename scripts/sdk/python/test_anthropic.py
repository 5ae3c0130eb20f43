"""Anthropic's own client reads the model server."""

import functools
import unittest

import anthropic

from server import ARGUMENTS, KEY, QUESTION, SAID, THOUGHT, last_request, start


@functools.cache
def client() -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=start(), api_key=KEY, max_retries=0)


def ask(model: str) -> anthropic.types.Message:
    """The answer as the client puts it together from the stream."""
    with client().messages.stream(model=model, max_tokens=99, messages=QUESTION) as stream:
        return stream.get_final_message()


class Anthropic(unittest.TestCase):
    def test_text_streams_with_usage(self):
        with client().messages.stream(model="says", max_tokens=99, messages=QUESTION) as stream:
            self.assertEqual("".join(stream.text_stream), SAID)
            message = stream.get_final_message()
        usage = message.usage
        self.assertEqual((usage.input_tokens, usage.output_tokens), (100, 20))
        self.assertEqual((usage.cache_read_input_tokens, usage.cache_creation_input_tokens), (30, 5))
        self.assertEqual(message.stop_reason, "end_turn")
        request = last_request()
        self.assertEqual(request["headers"]["authorization"], f"Bearer {KEY}")
        self.assertEqual(request["body"]["messages"], QUESTION)

    def test_text_comes_whole(self):
        message = client().messages.create(model="says", max_tokens=99, messages=QUESTION)
        self.assertEqual([block.text for block in message.content], [SAID])

    def test_thinking_has_its_signature(self):
        thinking, text = ask("thinks").content
        self.assertEqual((thinking.type, thinking.thinking), ("thinking", THOUGHT))
        self.assertEqual(thinking.signature, "c2lnbmVk")
        self.assertEqual(text.text, "High at noon.")

    def test_thinking_may_be_hidden(self):
        hidden, _ = ask("hides").content
        self.assertEqual((hidden.type, hidden.data), ("redacted_thinking", "b3BhcXVl"))

    def test_calls_have_whole_arguments(self):
        message = ask("calls")
        text, first, second = message.content
        self.assertEqual(text.text, "Let me look.")
        self.assertEqual((first.id, first.name, first.input), ("call_1", "tide_at", ARGUMENTS))
        self.assertEqual((second.id, second.name, second.input), ("call_2", "now", {}))
        self.assertEqual(message.stop_reason, "tool_use")

    def test_an_answer_that_ran_out_says_so(self):
        self.assertEqual(ask("runs-out").stop_reason, "max_tokens")

    def test_refusals_are_the_clients_own_exceptions(self):
        for model, exception, kind in [
            ("denied", anthropic.AuthenticationError, "authentication_error"),
            ("limited", anthropic.RateLimitError, "rate_limit_error"),
            ("overloaded", anthropic.InternalServerError, "overloaded_error"),
            ("unknown", anthropic.NotFoundError, "not_found_error"),
        ]:
            with self.subTest(model), self.assertRaises(exception) as refused:
                ask(model)
            self.assertEqual(refused.exception.body["error"]["type"], kind)
            self.assertRegex(refused.exception.request_id, "^req_")
            wait = refused.exception.response.headers.get("retry-after")
            self.assertEqual(wait, "7" if model == "limited" else None)

    def test_an_error_inside_is_an_exception(self):
        with self.assertRaises(anthropic.APIStatusError) as failed:
            ask("fails-inside")
        self.assertEqual(failed.exception.body["error"]["type"], "overloaded_error")

    def test_a_reset_inside_a_call_is_an_exception(self):
        with self.assertRaisesRegex(Exception, "reset by peer"):
            ask("breaks-inside")

    def test_pieces_may_be_of_any_size(self):
        self.assertEqual(ask("split").content[0].text, "潮 in small pieces")

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in client().models.list()], ["tide-large", "tide-small"])
