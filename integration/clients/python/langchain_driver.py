"""The driver of langchain-openai, in the loop that its documentation shows."""

from functools import cache

from langchain_openai import ChatOpenAI

import driver


@cache
def llm(base_url):
    return ChatOpenAI(model="hermes-agent", base_url=base_url, api_key="key")


def ask(case, seen):
    options = {"extra_headers": {"Idempotency-Key": case["key"]}} if "key" in case else {}
    if case.get("whole"):
        seen.text = llm(case["base_url"]).invoke([("human", case["prompt"])], **options).content
        return
    for chunk in llm(case["base_url"]).stream([("human", case["prompt"])], **options):
        seen.text += chunk.text if isinstance(chunk.text, str) else chunk.text()
        seen.reasoning += chunk.additional_kwargs.get("reasoning_content", "")
        seen.finish = chunk.response_metadata.get("finish_reason") or seen.finish


driver.run("langchain-openai", ask)
