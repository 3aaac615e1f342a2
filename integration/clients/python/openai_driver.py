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
    try:
        stream = client(**own).chat.completions.create(
            model="hermes-agent",
            messages=[{"role": "user", "content": case["prompt"]}],
            stream=True,
        )
        for chunk in stream:
            seen.chunk(chunk)
    except Exception:
        # Old versions leave the stream open when the loop fails. The garbage
        # collector closes it, and where that happens inside a later request of the
        # same client, that hangs: it waits for a lock that it holds itself.
        client.cache_clear()
        raise


driver.run("openai", ask)
