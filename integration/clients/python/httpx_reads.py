# Prints the data of each event that the library hands to it.
import sys, json, httpx, httpx_sse
question = json.dumps({'model': 'hermes-agent', 'stream': True, 'messages': []})
headers = {'Authorization': 'Bearer k', 'Content-Type': 'application/json', 'Idempotency-Key': 'httpx'}
def read(method, path, **more):
    ids = []
    with httpx_sse.connect_sse(httpx.Client(timeout=None), method, sys.argv[1] + path, **more) as source:
        source.response.raise_for_status()
        stream = source.response.headers['X-Hermes-Stream']
        for event in source.iter_sse():
            ids.append(event.id)
            if event.data != '[DONE]':
                choice = json.loads(event.data)['choices'][0]
                yield choice['delta'].get('content') or choice['finish_reason']
    first = int(ids[0].split('/')[1])
    assert ids == [f'{stream}/{first + n}' for n in range(len(ids))], ids
    read.stream, read.events = stream, len(ids)
shown = list(read('POST', '/v1/chat/completions', content=question, headers=headers))
for n in range(read.events):
    rest = list(read('GET', f'/v1/chat/completions/{read.stream}', headers={'Authorization': 'Bearer k', 'Last-Event-ID': f'{read.stream}/{n}'}))
    assert rest == shown[n:], (n, rest)
for text in shown: print(text)
