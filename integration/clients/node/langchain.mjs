// The driver of @langchain/openai, in the loop that its README shows.
import { HumanMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { keyed, run } from './driver.mjs';

run('@langchain/openai', async (c, seen) => {
  const model = new ChatOpenAI({
    model: 'hermes-agent',
    apiKey: 'key',
    configuration: { baseURL: c.base_url, defaultHeaders: keyed(c) },
  });
  const response = await model.stream([new HumanMessage(c.prompt)]);
  for await (const chunk of response) {
    seen.text += chunk.text;
    seen.reasoning += chunk.additional_kwargs.reasoning_content ?? '';
    seen.finish = chunk.response_metadata.finish_reason ?? seen.finish;
  }
});
