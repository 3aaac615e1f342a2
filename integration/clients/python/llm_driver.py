"""The driver of llm, in the loop that its page "Python API" shows for streaming."""

import os
import tempfile

os.environ["LLM_USER_PATH"] = tempfile.mkdtemp()

from llm.default_plugins.openai_models import Chat

import driver


def ask(case, seen):
    model = Chat("hermes", model_name="hermes-agent", api_base=case["base_url"])
    for text in model.prompt(case["prompt"], key="key"):
        seen.text += text


driver.run("llm", ask)
