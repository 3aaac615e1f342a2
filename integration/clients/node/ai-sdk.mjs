// The driver of the AI SDK with @ai-sdk/openai-compatible, in the loop of its
// page "Error Handling": errors come as parts of the stream.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';
import { keyed, run } from './driver.mjs';

run('ai', async (c, seen) => {
  const hermes = createOpenAICompatible({ name: 'hermes', baseURL: c.base_url, apiKey: 'key' });
  const { stream } = streamText({ model: hermes.chatModel('hermes-agent'), prompt: c.prompt, headers: keyed(c) });
  for await (const part of stream) {
    switch (part.type) {
      case 'text-delta':
        seen.text += part.text;
        break;
      case 'reasoning-delta':
        seen.reasoning += part.text;
        break;
      case 'finish':
        seen.finish = part.finishReason;
        break;
      case 'error':
        seen.fail('part', part.error);
        break;
    }
  }
});
