"""The driver of openai, of any version, in the loops that its documentation shows."""

from functools import cache
from urllib.parse import urlencode, urljoin
from urllib.request import Request, urlopen

from openai import OpenAI

import driver


@cache
def client(base_url, api_key="key"):
    return OpenAI(base_url=base_url, api_key=api_key)


def ask(case, seen):
    own = {name: case[name] for name in ("base_url", "api_key") if name in case}
    if case.get("responses"):
        respond(client(**own).responses, case, seen)
        return
    question = {
        "model": "hermes-agent",
        "messages": case.get("messages") or [{"role": "user", "content": case["prompt"]}],
    }
    if "key" in case:
        question["extra_headers"] = {"Idempotency-Key": case["key"]}
    if case.get("whole"):
        completion = client(**own).chat.completions.create(**question)
        seen.text = completion.choices[0].message.content
        return
    stream = client(**own).chat.completions.create(**question, stream=True)
    for chunk in stream:
        seen.chunk(chunk)
        page = getattr(chunk, "hermes_approval_url", None)
        if page and case.get("approve"):
            press(page, case["approve"])


def press(page, choice):
    """Press a button of the page of an approval, as a browser without scripts does."""
    form = urlencode({"choice": choice}).encode()
    with urlopen(Request(page, form, {"Origin": urljoin(page, "/").rstrip("/")})) as answer:
        answer.read()


def respond(responses, case, seen):
    """Read a response, and go on after the last event if it breaks off, as the guide "Background mode" shows."""
    id = cursor = None
    stream = responses.create(model="hermes-agent", input=case["prompt"], stream=True, background=True)
    for tries_left in range(4, -1, -1):
        try:
            for event in stream:
                cursor = event.sequence_number
                if event.type == "response.created":
                    id = event.response.id
                elif event.type == "response.output_text.delta":
                    seen.text += event.delta
                elif event.type == "response.completed":
                    seen.finish = "stop"
                    return
                elif event.type == "response.failed":
                    error = event.response.error
                    seen.error = {"how": "event", "type": event.type, "message": error.message, "code": error.code}
                    return
            if not tries_left:
                return
        except Exception:
            if id is None or not tries_left:
                raise
        stream = responses.retrieve(id, stream=True, starting_after=cursor)


driver.run("openai", ask)
