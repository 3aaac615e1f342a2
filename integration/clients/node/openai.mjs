// The driver of openai, in the loops that its documentation shows. The argument is
// the name under which a version is installed.
import { keyed, run } from './driver.mjs';

const name = process.argv[2];
const { default: OpenAI } = await import(name);

run(name, async (c, seen) => {
  const client = new OpenAI({ baseURL: c.base_url, apiKey: 'key' });
  if (c.responses) {
    await respond(client.responses, c, seen);
    return;
  }
  const headers = keyed(c);
  if (c.whole) {
    const completion = await client.chat.completions.create({
      model: 'hermes-agent',
      messages: [{ role: 'user', content: c.prompt }],
    }, { headers });
    seen.text = completion.choices[0].message.content;
    return;
  }
  const stream = await client.chat.completions.create({
    model: 'hermes-agent',
    messages: [{ role: 'user', content: c.prompt }],
    stream: true,
  }, { headers });
  for await (const chunk of stream) {
    seen.chunk(chunk);
  }
});

/** respond reads a response, and goes on after the last event if it breaks off, as the guide "Background mode" shows. */
async function respond(responses, c, seen) {
  let id;
  let cursor;
  let stream = await responses.create({ model: 'hermes-agent', input: c.prompt, stream: true, background: true });
  for (let tries = 4; ; tries--) {
    try {
      for await (const event of stream) {
        cursor = event.sequence_number;
        if (event.type === 'response.created') id = event.response.id;
        else if (event.type === 'response.output_text.delta') seen.text += event.delta;
        else if (event.type === 'response.completed') {
          seen.finish = 'stop';
          return;
        } else if (event.type === 'response.failed') {
          seen.fail('event', event.response.error);
          return;
        }
      }
      if (!tries) return;
    } catch (error) {
      if (!id || !tries) throw error;
    }
    stream = await responses.retrieve(id, { stream: true, starting_after: cursor });
  }
}
