"""The driver of openai-agents, in the loop that its page "Streaming" shows.

With the argument "responses", it asks /v1/responses, otherwise chat completions.
"""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

import driver

Model = OpenAIResponsesModel if "responses" in sys.argv else OpenAIChatCompletionsModel
set_tracing_disabled(True)


async def stream(case, seen):
    client = AsyncOpenAI(base_url=case["base_url"], api_key="key")
    agent = Agent(name="Assistant", model=Model("hermes-agent", client))
    result = Runner.run_streamed(agent, input=case["prompt"])
    async for event in result.stream_events():
        if event.type != "raw_response_event":
            continue
        if event.data.type == "response.output_text.delta":
            seen.text += event.data.delta
        elif event.data.type in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            seen.reasoning += event.data.delta
    seen.finish = "stop"


driver.run("openai-agents", lambda case, seen: asyncio.run(stream(case, seen)))
