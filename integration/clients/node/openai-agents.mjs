// The driver of @openai/agents with chat completions, in the loop of its page "Streaming".
import { Agent, OpenAIChatCompletionsModel, run as runAgent, setTracingDisabled } from '@openai/agents';
import OpenAI from 'openai';
import { run } from './driver.mjs';

setTracingDisabled(true);

run('@openai/agents', async (c, seen) => {
  const client = new OpenAI({ baseURL: c.base_url, apiKey: 'key' });
  const agent = new Agent({ name: 'Assistant', model: new OpenAIChatCompletionsModel(client, 'hermes-agent') });
  const result = await runAgent(agent, c.prompt, { stream: true });
  for await (const text of result.toTextStream()) {
    seen.text += text;
  }
  await result.completed;
  seen.finish = 'stop';
});
