"""The driver of semantic-kernel, in the loop that its page "Chat completion" shows for streaming."""

import asyncio

from openai import AsyncOpenAI
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory

import driver


async def stream(case, seen):
    client = AsyncOpenAI(base_url=case["base_url"], api_key="key")
    service = OpenAIChatCompletion(ai_model_id="hermes-agent", async_client=client)
    history = ChatHistory()
    history.add_user_message(case["prompt"])
    answer = service.get_streaming_chat_message_content(chat_history=history, settings=OpenAIChatPromptExecutionSettings())
    async for chunk in answer:
        if chunk is None:
            continue
        seen.text += str(chunk)
        seen.finish = chunk.finish_reason.value if chunk.finish_reason else seen.finish


driver.run("semantic-kernel", lambda case, seen: asyncio.run(stream(case, seen)))
