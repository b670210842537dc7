"""What a Python client does with the runtime, scenario by scenario.

A scenario drives the published client, unmodified, and returns what the client showed: results,
notifications, errors and how the runtime ended. Whether that is right is judged by `main.rs`.
A driver names its client's ways to launch; everything else is common to the releases.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from deepseek_harness import DeepSeekHarness, HarnessClient
from pydantic import BaseModel

# Bounds a hang, never a measurement.
PATIENCE_SECONDS = 60.0


class AnyResult(BaseModel):
    """Accepts every result that is an object."""

    model_config = {"extra": "allow"}


@dataclass
class Settings:
    """What the test passes: the program, the model server and the directories to work in."""

    binary: str
    model: str
    work: Path
    config: str
    api_key: str | None = "sk-mock"
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def workspace(self) -> str:
        return str(self.work / "workspace")


@dataclass
class Launch:
    """One release's ways to make a client."""

    harness: Callable[..., DeepSeekHarness]
    misconfigured: dict[str, Callable[[Settings], DeepSeekHarness]]
    bundled: Callable[[Settings], DeepSeekHarness]
    scenarios: dict[str, Callable[["Peer"], dict[str, Any]]] = field(default_factory=dict)


class Peer:
    """A client with its runtime, watched but not changed."""

    def __init__(self, settings: Settings, launch: Launch, harness: DeepSeekHarness | None = None, **options: Any):
        self.settings = settings
        self.launch = launch
        self.harness = harness or launch.harness(settings, **options)
        self.process: Any = None
        self.signals: list[str] = []

    def again(self, **options: Any) -> "Peer":
        """A further client on the same directories."""
        return Peer(self.settings, self.launch, **options)

    @property
    def client(self) -> HarnessClient:
        return self.harness.client

    def spawn(self) -> Any:
        """Starts the process without a handshake, and notes each signal that the client sends to it."""
        self.client.start()
        process = self.client._proc
        if process is not self.process:
            self.process = process
            terminate, kill = process.terminate, process.kill

            def noted(name: str, send: Callable[[], None]) -> None:
                self.signals.append(name)
                send()

            process.terminate = lambda: noted("SIGTERM", terminate)
            process.kill = lambda: noted("SIGKILL", kill)
        return process

    def start(self) -> None:
        self.spawn()
        self.harness.start()

    def run(self, session: str, prompt: Any, on_notification: Any = None) -> dict[str, Any]:
        self.start()
        result = self.harness.run(prompt, session_id=session, on_notification=on_notification)
        return {
            "sessionId": result.session_id,
            "finalResponse": result.final_response,
            "finishReason": result.finish_reason,
            "events": result.events,
            "notifications": [
                {"method": notification.method, "params": notification.payload}
                for notification in result.notifications
            ],
        }

    def attempt(self, call: Callable[[], Any]) -> dict[str, Any]:
        """The call's value, or its error with everything the client tells about it."""
        try:
            return {"value": call()}
        except Exception as error:  # noqa: BLE001
            told = {"class": type(error).__name__, "message": str(error)}
            if hasattr(error, "code"):
                told["code"] = error.code
                told["data"] = error.data
            return {"error": told}

    def request(self, method: str, params: Any = None) -> dict[str, Any]:
        return self.attempt(
            lambda: self.client.request(method, params, response_model=AnyResult).model_dump()
        )

    def close(self) -> dict[str, Any]:
        self.harness.close()
        return self.ended()

    def ended(self) -> dict[str, Any]:
        """How the process ended, as the client knows it."""
        code = self.process.returncode
        killed = code is not None and code < 0
        return {
            "exitCode": None if killed else code,
            "signal": signal.Signals(-code).name if killed else None,
            "signalsSent": list(self.signals),
            "tail": list(self.client._stderr_lines),
        }

    def gone(self) -> dict[str, Any]:
        """Waits until the process has ended by itself."""
        self.process.wait(timeout=PATIENCE_SECONDS)
        return self.ended()


class Running:
    """A run on a thread of its own."""

    def __init__(self, peer: Peer, session: str, prompt: str, until: str | None = None):
        self.reached = threading.Event()
        self.changed = threading.Event()
        self.seen: list[dict[str, Any]] = []
        self.outcome: dict[str, Any] = {}

        def observe(notification: Any) -> None:
            self.seen.append({"method": notification.method, "params": notification.payload})
            event = notification.payload.get("event")
            if isinstance(event, dict) and event.get("type") == until:
                self.reached.set()
                self.changed.set()

        def work() -> None:
            self.outcome = peer.attempt(lambda: peer.run(session, prompt, observe))
            self.changed.set()

        peer.start()
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def wait_reached(self) -> None:
        self.changed.wait(PATIENCE_SECONDS)
        if not self.reached.is_set():
            raise RuntimeError(
                f"the awaited event did not come; {json.dumps(self.outcome)}; seen: {json.dumps(self.seen)}"
            )

    def finish(self) -> dict[str, Any]:
        self.thread.join(PATIENCE_SECONDS)
        if self.thread.is_alive():
            raise RuntimeError(f"a run did not end; seen: {json.dumps(self.seen)}")
        return {**self.outcome, "seen": self.seen}


def answers(peer: Peer) -> dict[str, Any]:
    """Every kind of model reply, each on a session of its own."""
    runs = {}
    for word in ["PLAIN", "THINK", "UTF8", "TOOL", "ERR400", "ERR401", "ERR500", "MAXTOK"]:
        runs[word] = peer.run(word.lower(), f"PROMPT: {word}")
    return {"runs": runs, "close": peer.close()}


def two_turns(peer: Peer) -> dict[str, Any]:
    """Two prompts on one session; the second carries characters that the client escapes."""
    first = peer.run("main", "PROMPT: PLAIN one")
    second = peer.run("main", [{"type": "text", "text": "PROMPT: PLAIN 你好 🦀\u2028"}])
    return {"first": first, "second": second, "close": peer.close()}


def overlap(peer: Peer) -> dict[str, Any]:
    """Two prompts on one session and one on another while the first turn's tool waits at a gate."""
    gate = Path(peer.settings.workspace) / "gate"
    os.mkfifo(gate)
    first = Running(peer, "main", "PROMPT: GATE", until="tool/call")
    first.wait_reached()
    second = Running(peer, "main", "PROMPT: PLAIN second", until="agent/inbox/spliced")
    second.wait_reached()
    other = peer.run("other", "PROMPT: PLAIN other")
    gate.write_text("tool-proof\n")
    return {"first": first.finish(), "second": second.finish(), "other": other, "close": peer.close()}


def at_once(peer: Peer) -> dict[str, Any]:
    """Six prompts from six threads on three sessions that do not exist yet."""
    running = [
        Running(peer, session, f"PROMPT: PLAIN {turn}")
        for turn in (1, 2)
        for session in ("red", "green", "blue")
    ]
    return {"runs": [run.finish() for run in running], "close": peer.close()}


MALFORMED = [
    "not json",
    "",
    "   ",
    "null",
    "42",
    '"str"',
    "[]",
    '{"jsonrpc":"2.0"}',
    '[{"jsonrpc":"2.0","id":"in-a-batch","method":"shutdown"}]',
    '{"jsonrpc":"2.0","id":null,"method":"shutdown"}',
    '{"jsonrpc":"2.0","id":true,"method":"shutdown"}',
    '{"jsonrpc":"2.0","id":{},"method":"shutdown"}',
    '{"jsonrpc":"2.0","method":7,"id":"x"}',
    '{"jsonrpc":"2.0","id":"cut off',
    '{"jsonrpc":"2.0","id":"a","method":"shutdown"}\r{"jsonrpc":"2.0","id":"b","method":"shutdown"}',
    "[" * 20000,
]


def malformed_lines(peer: Peer) -> dict[str, Any]:
    """Lines that hold no request, then requests; the runtime must pass over the former."""
    process = peer.spawn()
    everything = peer.client.subscribe_notifications()
    before = {}
    for number, line in enumerate(MALFORMED):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        before[str(number)] = peer.request(f"probe/{number}")
    process.stdin.buffer.write(b'{"jsonrpc":"2.0","id":"z","method":"\xff\xfe"}\n')
    process.stdin.buffer.flush()
    peer.client.notify("client/notice")
    peer.client.notify("client/notice", {"a": 1})
    peer.client.respond("server-req-1", {"ok": True})
    peer.client.respond_error("server-req-2", code=-32000, message="no", data={"d": 1})
    peer.client.respond_error(3, code=1, message="plain")
    unasked: list[str] = []
    after = peer.request("probe/after")
    everything.drain(lambda notification: unasked.append(notification.method))
    everything.close()
    run = peer.run("main", "PROMPT: PLAIN")
    return {"before": before, "after": after, "unasked": unasked, "run": run, "close": peer.close()}


def unknown_method(peer: Peer) -> dict[str, Any]:
    peer.start()
    methods = ["nope", "session/cancel", "session.prompt", "", "你好"]
    answers = {method: peer.request(method) for method in methods}
    return {"answers": answers, "close": peer.close()}


def bad_requests(peer: Peer) -> dict[str, Any]:
    """Prompts whose members are wrong, and values of the handshake that no runtime can use."""
    peer.start()
    block = {"type": "text", "text": "PROMPT: PLAIN"}
    everything = peer.client.subscribe_notifications()
    answers = {
        "no session id": peer.request("session/prompt", {"contentBlocks": [block]}),
        "number as session id": peer.request("session/prompt", {"sessionId": 7, "contentBlocks": [block]}),
        "empty session id": peer.request("session/prompt", {"sessionId": "", "contentBlocks": [block]}),
        "no blocks": peer.request("session/prompt", {"sessionId": "main"}),
        "text as blocks": peer.request("session/prompt", {"sessionId": "main", "contentBlocks": "hi"}),
    }
    route = {"cwd": peer.settings.workspace, "provider": "deepseek-official", "model": "deepseek-v4-flash"}
    for name, value in [("0", 0), ("-1", -1), ("1.5", 1.5), ("text", "12"), ("null", None)]:
        answers[f"maxTokens {name}"] = peer.request("initialize", {**route, "maxTokens": value})
    unasked: list[str] = []
    everything.drain(lambda notification: unasked.append(notification.method))
    everything.close()
    return {"answers": answers, "unasked": unasked, "run": peer.run("main", "PROMPT: PLAIN"), "close": peer.close()}


def close_unused(peer: Peer) -> dict[str, Any]:
    """Starts the process and closes it before any handshake."""
    peer.spawn()
    return {"close": peer.close()}


def close_mid_turn(peer: Peer) -> dict[str, Any]:
    run = Running(peer, "main", "PROMPT: SLOW", until="assistant/chunk")
    run.wait_reached()
    close = peer.close()
    return {"run": run.finish(), "close": close}


def close_mid_tool(peer: Peer) -> dict[str, Any]:
    """Closes while a command runs that would never end by itself."""
    os.mkfifo(Path(peer.settings.workspace) / "gate")
    run = Running(peer, "main", "PROMPT: GATE", until="tool/call")
    run.wait_reached()
    close = peer.close()
    return {"run": run.finish(), "close": close}


def eof_idle(peer: Peer) -> dict[str, Any]:
    run = peer.run("main", "PROMPT: PLAIN")
    peer.process.stdin.close()
    return {"run": run, "close": peer.gone()}


def eof_mid_turn(peer: Peer) -> dict[str, Any]:
    run = Running(peer, "main", "PROMPT: SLOW", until="assistant/chunk")
    run.wait_reached()
    peer.process.stdin.close()
    close = peer.gone()
    return {"run": run.finish(), "close": close}


def eof_then_sigterm(peer: Peer) -> dict[str, Any]:
    """The order in which the baseline's client ends a runtime that does not answer."""
    run = Running(peer, "main", "PROMPT: SLOW", until="assistant/chunk")
    run.wait_reached()
    peer.process.stdin.close()
    peer.process.send_signal(signal.SIGTERM)
    close = peer.gone()
    return {"run": run.finish(), "close": close}


def signalled(number: signal.Signals, mid_turn: bool) -> Callable[[Peer], dict[str, Any]]:
    def scenario(peer: Peer) -> dict[str, Any]:
        if not mid_turn:
            run = peer.run("main", "PROMPT: PLAIN")
            peer.process.send_signal(number)
            return {"run": run, "close": peer.gone()}
        run = Running(peer, "main", "PROMPT: SLOW", until="assistant/chunk")
        run.wait_reached()
        peer.process.send_signal(number)
        close = peer.gone()
        return {"run": run.finish(), "close": close}

    return scenario


def closed_stdout(peer: Peer) -> dict[str, Any]:
    """The client's end of the runtime's output is replaced by nothing while a turn streams."""
    run = Running(peer, "main", "PROMPT: SLOW", until="assistant/chunk")
    run.wait_reached()
    nothing = os.open(os.devnull, os.O_RDONLY)
    # The reader's blocked read keeps the pipe until the next bytes; then nobody holds it.
    os.dup2(nothing, peer.process.stdout.fileno())
    os.close(nothing)
    close = peer.gone()
    return {"run": run.finish(), "close": close}


def foreign_provider(peer: Peer) -> dict[str, Any]:
    """A handshake for a provider that nobody serves; then one on the same directories that works."""
    foreign = peer.again(provider="private")
    foreign.spawn()
    refused = foreign.attempt(foreign.harness.start)
    return {
        "refused": refused,
        "reaped": foreign.ended(),
        "run": peer.run("main", "PROMPT: PLAIN"),
        "close": peer.close(),
    }


def kept_route(peer: Peer) -> dict[str, Any]:
    """A refused second handshake leaves the route of the first."""
    peer.start()
    refused = peer.request(
        "initialize", {"cwd": peer.settings.workspace, "provider": "private", "model": "other"}
    )
    return {"refused": refused, "run": peer.run("main", "PROMPT: PLAIN"), "close": peer.close()}


def max_tokens(peer: Peer) -> dict[str, Any]:
    limited = peer.again(max_tokens=1234, model="deepseek-v4-pro")
    return {"run": limited.run("main", "PROMPT: PLAIN"), "close": limited.close()}


def missing_key(peer: Peer) -> dict[str, Any]:
    peer.settings.api_key = None
    keyless = peer.again()
    return {"run": keyless.run("main", "PROMPT: PLAIN"), "close": keyless.close()}


def odd_ids(peer: Peer) -> dict[str, Any]:
    runs = [peer.run(session, "PROMPT: PLAIN") for session in peer.settings.extra["ids"]]
    return {"runs": runs, "close": peer.close()}


def prompt_before_initialize(peer: Peer) -> dict[str, Any]:
    peer.spawn()
    everything = peer.client.subscribe_notifications()
    early = peer.attempt(lambda: peer.client.session_prompt("main", [{"type": "text", "text": "PROMPT: PLAIN"}]))
    unasked: list[str] = []
    everything.drain(lambda notification: unasked.append(notification.method))
    everything.close()
    return {"early": early, "unasked": unasked, "run": peer.run("main", "PROMPT: PLAIN"), "close": peer.close()}


def restart(peer: Peer) -> dict[str, Any]:
    """Two lives of a runtime on one store."""
    first = peer.run("main", "PROMPT: PLAIN")
    first_close = peer.close()
    second = peer.again()
    second.start()
    refused = second.attempt(lambda: second.run("main", "PROMPT: PLAIN"))
    other = second.run("other", "PROMPT: PLAIN")
    return {
        "first": first,
        "firstClose": first_close,
        "refused": refused,
        "other": other,
        "close": second.close(),
    }


def reuse(peer: Peer) -> dict[str, Any]:
    """The same client object after it was closed."""
    first = peer.run("main", "PROMPT: PLAIN")
    first_close = peer.close()
    second = peer.run("second", "PROMPT: PLAIN")
    return {"first": first, "firstClose": first_close, "second": second, "close": peer.close()}


def bundled(peer: Peer) -> dict[str, Any]:
    """No binary named: the client asks the runtime package, which offers this host."""
    found = Peer(peer.settings, peer.launch, peer.launch.bundled(peer.settings))
    return {"run": found.run("main", "PROMPT: TOOL"), "close": found.close()}


def misconfigured(peer: Peer) -> dict[str, Any]:
    """Launches that must fail, and what the client tells its user."""
    failures = {}
    for name, make in peer.launch.misconfigured.items():
        broken = Peer(peer.settings, peer.launch, make(peer.settings))
        broken.spawn()
        process = broken.process
        failures[name] = {**broken.attempt(broken.harness.start)}
        process.wait(timeout=PATIENCE_SECONDS)
        failures[name]["close"] = broken.ended()
    return {"failures": failures}


SCENARIOS: dict[str, Callable[[Peer], dict[str, Any]]] = {
    "answers": answers,
    "two-turns": two_turns,
    "overlap": overlap,
    "at-once": at_once,
    "malformed-lines": malformed_lines,
    "unknown-method": unknown_method,
    "bad-requests": bad_requests,
    "close-unused": close_unused,
    "close-mid-turn": close_mid_turn,
    "close-mid-tool": close_mid_tool,
    "eof-idle": eof_idle,
    "eof-mid-turn": eof_mid_turn,
    "eof-then-sigterm": eof_then_sigterm,
    "sigterm-idle": signalled(signal.SIGTERM, mid_turn=False),
    "sigterm-mid-turn": signalled(signal.SIGTERM, mid_turn=True),
    "sigint-idle": signalled(signal.SIGINT, mid_turn=False),
    "closed-stdout": closed_stdout,
    "foreign-provider": foreign_provider,
    "kept-route": kept_route,
    "max-tokens": max_tokens,
    "missing-key": missing_key,
    "odd-ids": odd_ids,
    "prompt-before-initialize": prompt_before_initialize,
    "restart": restart,
    "reuse": reuse,
    "bundled": bundled,
    "misconfigured": misconfigured,
}


def main(launch: Launch) -> None:
    """Runs the scenarios named on the command line, after the settings as a JSON object."""
    told = json.loads(sys.argv[1])
    known = {**SCENARIOS, **launch.scenarios}
    for name in sys.argv[2:]:
        settings = Settings(
            binary=os.environ["TRANSOM_BIN"],
            model=told["model"],
            work=Path(told["work"]),
            config=told.get("config", ""),
            extra=told,
        )
        shown = known[name](Peer(settings, launch))
        print(json.dumps({"scenario": name, **shown}), flush=True)
