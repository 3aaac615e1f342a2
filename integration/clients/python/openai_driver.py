"""The driver of openai, of any version, in the loop that its README shows."""

from openai import OpenAI

import driver


def ask(case, seen):
    client = OpenAI(base_url=case["base_url"], api_key="key")
    stream = client.chat.completions.create(
        model="hermes-agent",
        messages=[{"role": "user", "content": case["prompt"]}],
        stream=True,
    )
    for chunk in stream:
        seen.chunk(chunk)


driver.run("openai", ask)
