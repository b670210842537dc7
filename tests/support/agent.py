"""An agent for tests of the child backend: it plays a recording, or misbehaves in the one way that it is named for.

agent.py <behaviour> <directory> [<what it needs>]: every process of it writes its number into <directory>/pids.
"""

import json
import os
import signal
import subprocess
import sys
import time

BEHAVIOUR, DIRECTORY = sys.argv[1], sys.argv[2]


def note(name, text):
    with open(os.path.join(DIRECTORY, name), "a", encoding="utf-8") as file:
        file.write(text + "\n")


def write(frame):
    sys.stdout.write(json.dumps(frame, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def answer(request, result):
    write({"jsonrpc": "2.0", "id": request["id"], "result": result})


def say(text, session="c"):
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    write({"jsonrpc": "2.0", "method": "session/update",
           "params": {"sessionId": session, "update": update}})


def until_end():
    while sys.stdin.readline():
        pass


def for_ever():
    while True:
        time.sleep(1000)


def start(*command, **options):
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             **({"stdout": subprocess.DEVNULL} | options))
    note("pids", str(child.pid))
    return child


def play(steps):
    log = lambda line: note("log", json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    stubborn = any(step.get("event") == "SIGTERM" for step in steps)
    trapped = steps[0].get("trap", False)

    def terminated(*_):
        log({"from": "process", "event": "SIGTERM"})
        if not trapped:
            os._exit(0)

    if stubborn:
        signal.signal(signal.SIGTERM, terminated)
    for step in steps[1:]:
        event = step.get("event")
        if event == "env":
            looks = lambda name: any(part in name.upper() for part in ("PROBE", "DSH_"))
            names = sorted(name for name in os.environ if looks(name))
            log({"from": "process", "event": "env", "names": names})
        elif step["from"] == "parent" and event == "stdin-eof":
            while frame := read():
                log({"from": "parent", "frame": frame})
            log({"from": "parent", "event": "stdin-eof"})
            if stubborn:
                for_ever()
            return
        elif step["from"] == "parent":
            frame = read()
            if frame is None:
                return
            log({"from": "parent", "frame": frame})
        elif step["from"] == "child":
            write(step["frame"])
    sys.stdout.flush()
    os._exit(7)


def prompted(request):
    """The behaviours of an agent that has a task; what returns has answered."""
    name = BEHAVIOUR
    if name == "hang-prompt":
        say("partial")
        note("said", "partial")
        until_end()
        return False
    if name == "ignore-cancel":
        say("partial")
        note("said", "partial")
        for line in sys.stdin:
            note("heard", json.loads(line).get("method", "?"))
        note("heard", "end")
        return False
    if name == "ignore-everything":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("partial")
        note("said", "partial")
        for_ever()
    if name == "wanderer":
        start("sleep", "1000")
        start("sleep", "1000", start_new_session=True)
        note("said", "partial")
        for_ever()
    if name == "die-prompt":
        say("half")
        os._exit(3)
    if name == "killed-prompt":
        say("half")
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "close-output":
        say("half")
        os.close(1)
        until_end()
        return False
    if name == "close-input":
        say("half")
        os.close(0)
        for_ever()
    if name == "flood":
        note("said", "partial")
        try:
            while True:
                say("x" * 10_000)
        except BrokenPipeError:
            os._exit(0)
    if name == "flood-of-questions":
        note("said", "partial")
        number = 0
        try:
            while True:
                number += 1
                write({"jsonrpc": "2.0", "id": number, "method": "fs/read_text_file", "params": {}})
        except BrokenPipeError:
            os._exit(0)
    if name == "huge-line":
        say("before")
        say("x" * (40 << 20))
        until_end()
        return False
    if name == "endless-line":
        note("said", "partial")
        try:
            while True:
                os.write(1, b"x" * 65_536)
        except OSError:
            os._exit(0)
    if name == "never-read":
        note("said", "partial")
        for_ever()
    if name == "grandchildren":
        start("sleep", "1000")
        start("setsid", "sleep", "1000")
        start("env", "-i", "/usr/bin/setsid", "sleep", "1000", start_new_session=True)
        daemon = "setsid sleep 1000 > /dev/null 2>&1 & echo $!"
        said = subprocess.run(["bash", "-c", daemon], capture_output=True, text=True, check=True)
        note("pids", said.stdout.strip())
        say("they sleep")
    elif name == "holder":
        start("sleep", "1000", stdout=sys.stdout, start_new_session=True)
        say("half")
        os._exit(4)
    elif name == "environment":
        say(" ".join(sorted(os.environ)))
    elif name == "directory":
        say(os.getcwd())
    elif name == "gate":
        say("before ")
        note("said", "before")
        while not os.path.exists(os.path.join(DIRECTORY, "go")):
            time.sleep(0.01)
        say("and after")
    elif name == "echo":
        say(" ".join(block["text"] for block in request["params"]["prompt"]))
    elif name == "noise":
        print("Loading…", flush=True)
        say("through the noise")
        print("[1, 2]", flush=True)
    elif name == "words":
        print("on standard error", file=sys.stderr, flush=True)
        say("said")
    elif name == "error":
        write({"jsonrpc": "2.0", "id": request["id"],
               "error": {"code": -32603, "message": "the agent's own sk-words"}})
        until_end()
        return False
    elif name == "question":
        options = [{"optionId": kind, "name": kind, "kind": kind}
                   for kind in ("allow_always", "reject_once", "allow_once")]
        write({"jsonrpc": "2.0", "id": 9, "method": "session/request_permission",
               "params": {"sessionId": "c", "toolCall": {"toolCallId": "t"}, "options": options}})
        say(json.dumps(read()["result"]["outcome"], separators=(",", ":")))
    elif name in ("flush", "stay"):
        say("done")
    answer(request, {"stopReason": "end_turn"})
    return True


def serve():
    if BEHAVIOUR == "die-start":
        os._exit(5)
    if BEHAVIOUR == "deaf":
        note("said", "started")
        for_ever()
    while request := read():
        method = request.get("method")
        if method == "initialize":
            if BEHAVIOUR == "hang-initialize":
                note("said", "started")
                until_end()
                return
            if BEHAVIOUR == "die-initialize":
                os._exit(5)
            version = 2 if BEHAVIOUR == "other-version" else 1
            answer(request, {"protocolVersion": version, "agentCapabilities": {}, "authMethods": []})
        elif method == "session/new":
            if BEHAVIOUR == "hang-new":
                note("said", "started")
                until_end()
                return
            if BEHAVIOUR == "die-new":
                os._exit(5)
            if BEHAVIOUR == "early-grandchild":
                start("sleep", "1000", start_new_session=True)
                answer(request, {})
            else:
                answer(request, {"sessionId": "c"})
            if BEHAVIOUR == "never-read":
                note("said", "partial")
                for_ever()
        elif method == "session/prompt":
            if not prompted(request):
                return
    if BEHAVIOUR == "flush":
        time.sleep(0.4)
        note("flushed", "whole")
    if BEHAVIOUR == "stay":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("said", "ended")
        for_ever()


note("pids", str(os.getpid()))
if BEHAVIOUR == "play":
    with open(sys.argv[3], encoding="utf-8") as file:
        play([json.loads(line) for line in file])
else:
    serve()
