"""The driver of langchain-openai, in the loop that its documentation shows."""

import driver
from langchain_openai import ChatOpenAI


def ask(case, seen):
    llm = ChatOpenAI(model="hermes-agent", base_url=case["base_url"], api_key="key")
    for chunk in llm.stream([("human", case["prompt"])]):
        seen.text += chunk.text if isinstance(chunk.text, str) else chunk.text()
        seen.reasoning += chunk.additional_kwargs.get("reasoning_content", "")
        seen.finish = chunk.response_metadata.get("finish_reason") or seen.finish


driver.run("langchain-openai", ask)
