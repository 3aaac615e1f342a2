// The driver of openai, in the loop that its documentation shows. The argument is
// the name under which a version is installed.
import { run } from './driver.mjs';

const name = process.argv[2];
const { default: OpenAI } = await import(name);

run(name, async (c, seen) => {
  const client = new OpenAI({ baseURL: c.base_url, apiKey: 'key' });
  if (c.whole) {
    const completion = await client.chat.completions.create({
      model: 'hermes-agent',
      messages: [{ role: 'user', content: c.prompt }],
    });
    seen.text = completion.choices[0].message.content;
    return;
  }
  const stream = await client.chat.completions.create({
    model: 'hermes-agent',
    messages: [{ role: 'user', content: c.prompt }],
    stream: true,
  });
  for await (const chunk of stream) {
    seen.chunk(chunk);
  }
});
