"""The driver of openai, of any version, in the loop that its README shows."""

from functools import cache

from openai import OpenAI

import driver


@cache
def client(base_url, api_key="key"):
    return OpenAI(base_url=base_url, api_key=api_key)


def ask(case, seen):
    own = {name: case[name] for name in ("base_url", "api_key") if name in case}
    if case.get("whole"):
        completion = client(**own).chat.completions.create(
            model="hermes-agent",
            messages=[{"role": "user", "content": case["prompt"]}],
        )
        seen.text = completion.choices[0].message.content
        return
    stream = client(**own).chat.completions.create(
        model="hermes-agent",
        messages=[{"role": "user", "content": case["prompt"]}],
        stream=True,
    )
    for chunk in stream:
        seen.chunk(chunk)


driver.run("openai", ask)
