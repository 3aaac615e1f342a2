// The driver of eventsource-parser, in the loop that its README shows, with
// fetch.
import { createParser } from 'eventsource-parser';
import { run } from './driver.mjs';

run('eventsource-parser', async (c, seen) => {
  const response = await fetch(`${c.base_url}/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: 'Bearer key' },
    body: JSON.stringify({
      model: 'hermes-agent',
      stream: true,
      messages: [{ role: 'user', content: c.prompt }],
    }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  let failure = null;
  function onEvent(event) {
    if (event.data === '[DONE]') return;
    const chunk = JSON.parse(event.data);
    if (chunk.error) failure = Object.assign(new Error(chunk.error.message), { code: chunk.error.code });
    else seen.chunk(chunk);
  }
  const parser = createParser({ onEvent });
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    parser.feed(chunk);
  }
  if (failure) throw failure;
});
