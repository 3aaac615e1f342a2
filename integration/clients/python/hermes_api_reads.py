# Prints the events that the library hands to its program, one on each line.
import asyncio, sys
from hermes_agent_api_client import AssistantDeltaEvent, HermesAgentApiClient, KeepaliveEvent, TerminalEvent, ToolProgressEvent

async def read(base, prompt):
    request = {'model': 'hermes-agent', 'stream': True, 'messages': [{'role': 'user', 'content': prompt}]}
    text, keepalives = '', 0
    async with HermesAgentApiClient(base, 'a-key') as client:
        try:
            async for event in client.stream_chat_events(request):
                match event:
                    case AssistantDeltaEvent():
                        text += event.text
                    case ToolProgressEvent():
                        print('tool', event.tool_name, event.status.value)
                    case KeepaliveEvent():
                        keepalives += 1
                    case TerminalEvent():
                        print('end', event.outcome.value, event.partial)
        except Exception as error:
            print('exception', type(error).__name__)
    print('text', repr(text))
    print('keepalives', keepalives > 0)

asyncio.run(read(sys.argv[1], sys.argv[2]))
