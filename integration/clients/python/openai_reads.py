# Prints the data of each event that the library hands to it.
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1] + '/v1', api_key='k', max_retries=0)
stream = client.chat.completions.create(model='hermes-agent', stream=True, messages=[{'role': 'user', 'content': 'hi'}],
    extra_headers={'Idempotency-Key': 'k'})
for chunk in stream:
    print(chunk.choices[0].delta.content or chunk.choices[0].finish_reason)
