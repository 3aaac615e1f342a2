// What a page has around the code that docs/resume-programs.md shows, and what a test asks it.
const messages = [{ role: 'user', content: 'hi' }];
const shown = []; // chunks, as JSON
let stream = ''; // the id of the stream
let received = ''; // of the last answer, as it came
let finished = false;
let failure = '';

function show(chunk) {
  shown.push(JSON.stringify(chunk));
  document.getElementById('text').append(chunk.choices?.[0]?.delta.content ?? '');
}

const real = window.fetch;
window.fetch = async (...args) => {
  const response = await real(...args);
  stream = response.headers.get('x-hermes-stream') ?? stream;
  received = '';
  const decoder = new TextDecoder();
  const seeing = new TransformStream({
    transform(bytes, to) {
      received += decoder.decode(bytes, { stream: true });
      to.enqueue(bytes);
    },
  });
  return response.body ? new Response(response.body.pipeThrough(seeing), response) : response;
};

addEventListener('error', (e) => { failure = String(e.error ?? e.message); });
addEventListener('unhandledrejection', (e) => { failure = String(e.reason); });
