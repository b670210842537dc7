"""One conversation with the standard surface, through release 0.12.1 of the Python library. Prints what was seen as one
JSON object; any error ends it with a trace."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from acp import spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

told = json.loads(sys.argv[1])


class Client:
    """What the agent reaches."""

    def __init__(self) -> None:
        self.updates: list[str] = []
        self.begun = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.updates.append(update.session_update)
        if update.session_update == "tool_call":
            self.begun.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **meta: Any
    ) -> RequestPermissionResponse:
        self.updates.append(f"permission for {tool_call.title}")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    def kinds(self) -> list[str]:
        kinds, self.updates = self.updates, []
        return kinds


def choices(answer: Any) -> Any:
    return answer.config_options[0].current_value


async def main() -> None:
    client = Client()
    cwd = told["cwd"]
    seen: dict[str, Any] = {}
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    async with spawn_agent_process(client, told["program"], *told["args"], env=environment, cwd=cwd) as (conn, process):
        hello = await conn.initialize(protocol_version=1)
        offered = hello.agent_capabilities.session_capabilities
        seen["capabilities"] = offered.model_dump(mode="json", by_alias=True, exclude_none=True)
        new = await conn.new_session(cwd=cwd, mcp_servers=[])
        session = new.session_id
        seen["model"] = choices(new)

        async def say(text: str) -> str:
            return (await conn.prompt(session_id=session, prompt=[text_block(text)])).stop_reason

        for mark in ("REASON", "PERM", "LENGTH"):
            reason = await say(f"[[{mark}]]")
            seen[mark] = [*client.kinds(), reason]
        client.begun.clear()
        slow = asyncio.ensure_future(say("[[SLOWTOOL]]"))
        await client.begun.wait()
        await conn.cancel(session_id=session)
        reason = await slow
        seen["SLOWTOOL"] = [*client.kinds(), reason]
        seen["chosen"] = choices(await conn.set_config_option(config_id="model", session_id=session, value=seen["model"]))
        await conn.close_session(session_id=session)
        listed = await conn.list_sessions(cwd=cwd)
        seen["listed"] = [row.session_id == session and row.cwd == cwd for row in listed.sessions]
        await conn.resume_session(cwd=cwd, session_id=session, mcp_servers=[])
        reason = await say("[[PLAIN]]")
        seen["resumed"] = [*client.kinds(), reason]
    seen["exit"] = process.returncode
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main())
