"""The driver of litellm, in the loop that its README shows for streaming."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # ask nobody for prices

from litellm import completion

import driver


def ask(case, seen):
    response = completion(
        model="openai/hermes-agent",
        api_base=case["base_url"],
        api_key="key",
        messages=[{"role": "user", "content": case["prompt"]}],
        stream=True,
    )
    for part in response:
        seen.chunk(part)


driver.run("litellm", ask)
