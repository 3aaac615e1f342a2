// The part that all drivers of Node clients share: it reads cases from stdin,
// one JSON object a line, and writes what the client made of each to stdout, in
// the protocol that ../README.md describes.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// say writes one line. console.log is the client's to write to, on stderr.
const say = (v) => process.stdout.write(JSON.stringify(v) + '\n');
console.log = console.info = console.debug = console.error;

/** version is that of an installed package. */
const version = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

/** A Seen is what a program that uses the client has seen of one answer. */
class Seen {
  text = '';
  reasoning = '';
  tools = [];
  finish = '';
  error = null;

  /** chunk notes what a program reads in a chunk of the OpenAI API. */
  chunk(chunk) {
    this.tool(chunk);
    const choice = chunk.choices[0];
    this.text += choice?.delta?.content ?? '';
    this.reasoning += choice?.delta?.reasoning_content ?? '';
    this.finish = choice?.finish_reason || this.finish;
  }

  /** tool notes a tool event, when it is one. */
  tool(event) {
    if (event?.tool && event?.status) this.tools.push(`${event.tool} ${event.status}`);
  }

  /** fail notes an error; how is "exception", "part" or "callback". */
  fail(how, error) {
    this.error = {
      how,
      type: error?.constructor?.name ?? typeof error,
      message: String(error?.message ?? error),
      code: String(error?.code ?? error?.error?.code ?? ''),
    };
  }
}

/** keyed are the headers of a case. */
export const keyed = (c) => (c.key ? { 'Idempotency-Key': c.key } : {});

/**
 * run answers cases until stdin ends. ask is the client's documented loop; what
 * it throws is what the program would have got.
 */
export function run(name, ask) {
  say({ version: version(name) });
  createInterface({ input: process.stdin }).on('line', async (line) => {
    const c = JSON.parse(line);
    const begin = Date.now();
    let seen;
    for (let tries = c.key || c.again ? 5 : 1; tries > 0; tries = seen.error ? tries - 1 : 0) {
      seen = new Seen();
      try {
        await ask(c, seen);
      } catch (error) {
        seen.fail('exception', error);
      }
    }
    say({ id: c.id, ...seen, ms: Date.now() - begin });
  });
}

// A failure that no caller of the client can catch is the end of a program.
process.on('unhandledRejection', (error) => {
  console.error('unhandled rejection', error);
  process.exit(3);
});
