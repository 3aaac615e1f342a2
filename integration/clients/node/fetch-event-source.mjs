// The driver of @microsoft/fetch-event-source, in the loop of its README with
// "better error handling": an error that the server sends is fatal, and all else
// is tried again. The README's server never closes a stream; that of a chat does,
// behind [DONE]. Who waits for an answer gives up after three errors.
import { EventStreamContentType, fetchEventSource } from '@microsoft/fetch-event-source';
import { run } from './driver.mjs';

// It is written for browsers.
globalThis.window = globalThis;
globalThis.document = new EventTarget();

class RetriableError extends Error {}
class FatalError extends Error {}

run('@microsoft/fetch-event-source', async (c, seen) => {
  let done = false;
  let errors = 0;
  await fetchEventSource(`${c.base_url}/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: 'Bearer key' },
    body: JSON.stringify({
      model: 'hermes-agent',
      stream: true,
      messages: [{ role: 'user', content: c.prompt }],
    }),
    openWhenHidden: true,
    async onopen(response) {
      if (response.ok && response.headers.get('content-type')?.startsWith(EventStreamContentType)) {
        return;
      }
      throw new RetriableError(await response.text());
    },
    onmessage(msg) {
      if (!msg.data) return; // it hands on comments too
      if (msg.data === '[DONE]') {
        done = true;
        return;
      }
      const chunk = JSON.parse(msg.data);
      if (chunk.error) throw Object.assign(new FatalError(chunk.error.message), { code: chunk.error.code });
      seen.chunk(chunk);
    },
    onclose() {
      if (!done) throw new RetriableError('the server closed the connection unexpectedly');
    },
    onerror(err) {
      if (err instanceof FatalError || ++errors === 3) throw err;
    },
  });
});
