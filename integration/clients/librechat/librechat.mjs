// The driver of @librechat/agents, the part of LibreChat that talks to models, set up
// as LibreChat does for an endpoint of its user's.
import { randomUUID } from 'node:crypto';
import { AIMessage, HumanMessage } from '@langchain/core/messages';
import { ChatModelStreamHandler, createContentAggregator, GraphEvents, Providers, Run } from '@librechat/agents';
import { run } from './driver.mjs';

run('@librechat/agents', async (c, seen) => {
  const { contentParts, aggregateContent } = createContentAggregator();
  const aggregate = { handle: (event, data) => aggregateContent({ event, data }) };
  const agent = await Run.create({
    runId: randomUUID(),
    graphConfig: {
      type: 'standard',
      instructions: 'Answer.',
      llmConfig: {
        provider: Providers.OPENAI,
        model: 'hermes-agent',
        apiKey: c.api_key ?? 'key',
        streaming: true,
        streamUsage: false,
        // LibreChat fills in the placeholders of its "headers:" and hands them over so.
        configuration: { baseURL: c.base_url, defaultHeaders: c.headers },
      },
    },
    returnContent: true,
    customHandlers: {
      [GraphEvents.CHAT_MODEL_STREAM]: new ChatModelStreamHandler(),
      [GraphEvents.ON_RUN_STEP]: aggregate,
      [GraphEvents.ON_MESSAGE_DELTA]: aggregate,
      [GraphEvents.ON_REASONING_DELTA]: aggregate,
    },
  });
  const options = { configurable: { thread_id: randomUUID() }, runId: randomUUID(), streamMode: 'values', version: 'v2' };
  const chat = (c.messages ?? [{ role: 'user', content: c.prompt }]).map(
    ({ role, content }) => new (role === 'user' ? HumanMessage : AIMessage)(content),
  );
  try {
    await agent.processStream({ messages: chat }, options);
  } finally {
    for (const part of contentParts) {
      seen.text += part?.text ?? '';
      seen.reasoning += part?.think ?? '';
    }
  }
});
