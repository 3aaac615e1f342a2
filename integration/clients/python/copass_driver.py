"""The driver of copass-hermes-agents: the stream of its agent."""

import asyncio

from copass_core_agents.events import AgentFinish, AgentTextDelta
from copass_core_agents.invocation_context import AgentInvocationContext
from copass_core_agents.scope import AgentScope
from copass_core_agents.tool_registry import AgentToolRegistry
from copass_hermes_agents import CopassHermesAgent, HermesAgentBackend

import driver


async def stream(case, seen):
    backend = HermesAgentBackend(endpoint_url=case["base_url"].removesuffix("/v1"), api_server_key="key")
    agent = CopassHermesAgent(identity="test", system_prompt="You are helpful.", backend=backend, tools=AgentToolRegistry())
    context = AgentInvocationContext(scope=AgentScope(user_id="u"))
    async for event in agent.stream([{"role": "user", "content": case["prompt"]}], context=context):
        if isinstance(event, AgentTextDelta):
            seen.text += event.text
        elif isinstance(event, AgentFinish):
            seen.finish = event.stop_reason


driver.run("copass-hermes-agents", lambda case, seen: asyncio.run(stream(case, seen)))
