// fetch-event-source as it is by default: it reconnects by itself, and says which event it
// has seen last. It asks that the agent goes on meanwhile.
import { fetchEventSource } from '@microsoft/fetch-event-source';

globalThis.window = globalThis;
globalThis.document = new EventTarget();

let text = '';
let errors = 0;
let done = false;
await fetchEventSource(`${process.argv[2]}/chat/completions`, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Hermes-Detach': '1m' },
  body: JSON.stringify({ model: 'hermes-agent', stream: true, messages: [{ role: 'user', content: 'hi' }] }),
  openWhenHidden: true,
  onmessage(msg) {
    if (msg.data === '[DONE]') done = true;
    else if (msg.data) text += JSON.parse(msg.data).choices[0].delta.content ?? '';
  },
  onclose() {
    if (!done) throw new Error('closed too early');
  },
  onerror(err) {
    if (++errors > 3) throw err;
    return 1;
  },
});
console.log(JSON.stringify({ text, errors }));
