"""The driver of smolagents: a model that streams, as its page "Models" shows."""

from smolagents import ChatMessage, MessageRole, OpenAIModel

import driver


def ask(case, seen):
    model = OpenAIModel(model_id="hermes-agent", api_base=case["base_url"], api_key="key")
    question = ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": case["prompt"]}])
    for delta in model.generate_stream([question]):
        seen.text += delta.content or ""


driver.run("smolagents", ask)
