"""Drives release 0.2.1rc2 of the Python client, which launches a program with a profile.

Usage: TRANSOM_BIN=<program> python python_0_2_1rc2.py '{"model": <url>, "work": <dir>}' <scenario>…
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

from deepseek_harness import DeepSeekHarness

from scenarios import Launch, Peer, Settings, main


def harness(settings: Settings, **options: Any) -> DeepSeekHarness:
    given: dict[str, Any] = {
        "dsh_bin": settings.binary,
        "dsh_home": str(settings.work / "store"),
        "cwd": settings.workspace,
        "base_url": settings.model,
        "api_key": settings.api_key,
    }
    return DeepSeekHarness(**{**given, **options})


def bundled(settings: Settings) -> DeepSeekHarness:
    """Puts this host where the client looks for the runtime that comes with it (S-200)."""
    package = types.ModuleType("deepseek_harness_runtime")
    package.resolve_bundled_launch_args = lambda mode=None: (settings.binary,)
    sys.modules["deepseek_harness_runtime"] = package
    return harness(settings, dsh_bin=None)


def working_directory(peer: Peer) -> dict[str, Any]:
    """Reads and changes a session's directory, and lets a command tell where it runs."""
    workspace = Path(peer.settings.workspace)
    (workspace / "sub").mkdir()
    (workspace / "sub" / "deeper").mkdir()
    (workspace / "file").write_text("no directory\n")
    peer.start()
    session = peer.harness.start_session("main")
    steps = {
        "fresh": peer.attempt(session.get_working_directory),
        "run in the first": peer.run("main", "PROMPT: WHERE"),
        "relative": peer.attempt(lambda: session.set_working_directory("sub")),
        "after relative": peer.attempt(session.get_working_directory),
        "run in the second": peer.run("main", "PROMPT: WHERE"),
        "absolute": peer.attempt(lambda: session.set_working_directory(str(workspace / "sub" / "deeper"))),
        "missing": peer.attempt(lambda: session.set_working_directory("nowhere")),
        "file": peer.attempt(lambda: session.set_working_directory("../../file")),
        "after refusals": peer.attempt(session.get_working_directory),
        "other session": peer.attempt(peer.harness.start_session("other").get_working_directory),
        "no path": peer.request("session/working-directory/set", {"sessionId": "main"}),
        "no session": peer.request("session/working-directory/get", {}),
    }
    (workspace / "sub" / "deeper").rmdir()
    steps["removed"] = peer.attempt(session.get_working_directory)
    return {"steps": steps, "close": peer.close()}


def minimal_profile(peer: Peer) -> dict[str, Any]:
    minimal = peer.again(profile="sdk-minimal")
    return {"run": minimal.run("main", "PROMPT: TOOL"), "close": minimal.close()}


if __name__ == "__main__":
    main(
        Launch(
            harness=harness,
            bundled=bundled,
            misconfigured={
                "unknown profile": lambda settings: harness(settings, profile="nosuch"),
                "missing patch": lambda settings: harness(
                    settings, patches=(str(settings.work / "nowhere.yml"),)
                ),
            },
            scenarios={
                "working-directory": working_directory,
                "minimal-profile": minimal_profile,
            },
        )
    )
