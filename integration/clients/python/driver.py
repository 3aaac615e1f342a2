"""The part that all drivers of Python clients share.

It reads cases from stdin, one JSON object a line, and writes what the client made
of each to stdout, in the protocol that ../README.md describes.
"""

import gc
import json
import os
import sys
import threading
import time
from importlib import metadata

# Only say writes to the real stdout: what a client prints goes to stderr.
_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
_lock = threading.Lock()

# A client may leave a stream open when it breaks off, until the garbage collector closes
# it. Where that happens inside a later request of the same httpcore pool, the request hangs:
# it waits for a lock that it holds itself. So garbage is collected between requests.
gc.disable()


def _say(value):
    with _lock:
        _out.write(json.dumps(value) + "\n")
        _out.flush()


class Seen:
    """What a program that uses the client has seen of one answer."""

    def __init__(self):
        self.text = ""
        self.reasoning = ""
        self.tools = []
        self.details = []
        self.finish = ""
        self.error = None

    def chunk(self, chunk):
        """Note what a program reads in a chunk of the OpenAI API."""
        self.tool(getattr(chunk, "tool", None), getattr(chunk, "status", None))
        if getattr(chunk, "args", None) is not None:
            self.details.append([chunk.args, getattr(chunk, "result", None), getattr(chunk, "failed", False)])
        choice = chunk.choices[0]
        self.text += choice.delta.content or ""
        self.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        self.finish = choice.finish_reason or self.finish

    def tool(self, tool, status):
        """Note a tool event, when it is one."""
        if tool and status:
            self.tools.append(f"{tool} {status}")

    def fail(self, error):
        """Note an exception."""
        self.error = {
            "how": "exception",
            "type": type(error).__name__,
            "message": str(error),
            "code": str(getattr(error, "code", None) or ""),
        }


def _answer(case, ask):
    begin = time.monotonic()
    for _ in range(5 if "key" in case else 1):
        seen = Seen()
        try:
            ask(case, seen)
        except Exception as error:  # what the program would have got
            seen.fail(error)
        if not seen.error:
            break
    gc.collect()
    _say({"id": case["id"], **vars(seen), "ms": int((time.monotonic() - begin) * 1000)})


def run(name, ask):
    """Answer cases until stdin ends; ask is the client's documented loop."""
    gc.freeze()  # what the imports left is no garbage, and need not be looked at again
    _say({"version": metadata.version(name)})
    for line in sys.stdin:
        threading.Thread(target=_answer, args=(json.loads(line), ask), daemon=True).start()
