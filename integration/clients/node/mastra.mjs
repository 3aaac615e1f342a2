// The driver of @mastra/core with its own configuration of a compatible model, in the loop of its
// page "Streaming".
import { Agent } from '@mastra/core/agent';
import { run } from './driver.mjs';

run('@mastra/core', async (c, seen) => {
  const agent = new Agent({
    id: 'assistant',
    name: 'Assistant',
    instructions: 'You are helpful.',
    model: { id: 'hermes/hermes-agent', url: c.base_url, apiKey: 'key' },
  });
  const stream = await agent.stream(c.prompt);
  for await (const part of stream.fullStream) {
    switch (part.type) {
      case 'text-delta':
        seen.text += part.payload.text;
        break;
      case 'reasoning-delta':
        seen.reasoning += part.payload.text;
        break;
      case 'finish':
        seen.finish = part.payload.stepResult?.reason ?? '';
        break;
      case 'error':
        seen.fail('part', part.payload.error);
        break;
    }
  }
});
