"""The driver of openai, of any version, in the loop that its README shows."""

from functools import cache

from openai import OpenAI

import driver


@cache
def client(base_url):
    return OpenAI(base_url=base_url, api_key="key")


def ask(case, seen):
    stream = client(case["base_url"]).chat.completions.create(
        model="hermes-agent",
        messages=[{"role": "user", "content": case["prompt"]}],
        stream=True,
    )
    for chunk in stream:
        seen.chunk(chunk)


driver.run("openai", ask)
