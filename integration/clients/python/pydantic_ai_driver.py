"""The driver of pydantic-ai, in the loop that its page "Output" shows for streamed text.

By default it groups the text of a tenth of a second, and loses a group in which an error comes.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import driver


async def stream(case, seen):
    provider = OpenAIProvider(base_url=case["base_url"], api_key="key")
    agent = Agent(OpenAIChatModel("hermes-agent", provider=provider))
    async with agent.run_stream(case["prompt"]) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            seen.text += text
        for part in result.response.parts:
            if part.part_kind == "thinking":
                seen.reasoning += part.content
        seen.finish = result.response.finish_reason or ""


driver.run("pydantic-ai-slim", lambda case, seen: asyncio.run(stream(case, seen)))
