"""Drives release 0.12.1 of the Python client. Orders and reports are those of `pipe.mjs`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from acp import spawn_agent_process
from acp.exceptions import RequestError
from acp.schema import (
    AuthenticateRequest,
    InitializeRequest,
    NewSessionRequest,
    PromptRequest,
    RequestPermissionResponse,
)

told = json.loads(sys.argv[1])


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def plain(model: Any) -> Any:
    if model is None:
        return None
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Client:
    """What the agent reaches."""

    def __init__(self) -> None:
        self.open: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        say({"update": {"sessionId": session_id, "update": plain(update), "_meta": meta}})

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **meta: Any
    ) -> RequestPermissionResponse:
        number = len(self.open) + 1
        self.open[number] = asyncio.get_running_loop().create_future()
        params = {"sessionId": session_id, "toolCall": plain(tool_call), "options": [plain(one) for one in options]}
        say({"asked": number, "params": params})
        return RequestPermissionResponse.model_validate({"outcome": await self.open[number]})


def fields(model: Any) -> dict[str, Any]:
    """The members of a request as the client's methods take them: models where it has models."""
    return {name: getattr(model, name) for name in type(model).model_fields if name in model.model_fields_set}


def failure(error: BaseException) -> dict[str, Any]:
    shown = {"class": type(error).__name__, "message": str(error)}
    if isinstance(error, RequestError):
        shown.update(code=error.code, data=error.data)
    return shown


async def request(conn: Any, method: str, params: dict[str, Any]) -> Any:
    typed = {
        "initialize": (InitializeRequest, conn.initialize),
        "authenticate": (AuthenticateRequest, conn.authenticate),
        "session/new": (NewSessionRequest, conn.new_session),
        "session/prompt": (PromptRequest, conn.prompt),
    }
    if method in typed:
        model, call = typed[method]
        return plain(await call(**fields(model.model_validate(params))))
    # Extensions alone are free; the client puts the underscore there itself.
    return await conn.ext_method(method.removeprefix("_"), params)


async def main() -> None:
    client = Client()
    orders = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    signals: list[str] = []
    async with spawn_agent_process(
        client, told["program"], *told["args"], env=told["env"], cwd=told["cwd"]
    ) as (conn, process):
        errors = asyncio.ensure_future(process.stderr.read())
        for name, word in (("terminate", "SIGTERM"), ("kill", "SIGKILL")):
            send = getattr(process, name)
            setattr(process, name, lambda send=send, word=word: (signals.append(word), send()))
        say({"started": process.pid})

        async def ask(order: dict[str, Any]) -> None:
            try:
                result = await request(conn, order["method"], order["params"])
                say({"answered": order["ask"], "result": result})
            except Exception as error:
                say({"answered": order["ask"], "error": failure(error)})

        while line := await orders.readline():
            order = json.loads(line)
            if "ask" in order:
                task = asyncio.ensure_future(ask(order))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            elif order.get("tell") == "session/cancel":
                await conn.cancel(session_id=order["params"]["sessionId"])
            elif "decide" in order:
                client.open[order["decide"]].set_result(order["outcome"])
            elif "close" in order:
                break
            else:
                raise ValueError(f"no such order: {line!r}")
    # Leaving the context has ended the agent, in the client's own way.
    code = process.returncode
    status = {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": f"SIG{-code}"}
    say({"ended": {**status, "signals": signals}, "stderr": (await errors).decode()})


if __name__ == "__main__":
    asyncio.run(main())
