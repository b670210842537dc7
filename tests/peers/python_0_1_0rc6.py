"""Drives release 0.1.0rc6 of the Python client, which launches a runtime with a configuration file.

Usage: TRANSOM_BIN=<program> python python_0_1_0rc6.py '{"model": <url>, "work": <dir>, "config": <file>}' <scenario>…
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

from deepseek_harness import DeepSeekHarness

from scenarios import Launch, Settings, main


def harness(settings: Settings, **options: Any) -> DeepSeekHarness:
    given: dict[str, Any] = {
        "runtime_bin": settings.binary,
        "cordis": settings.config,
        "session_root": str(settings.work / "store"),
        "cwd": settings.workspace,
        "base_url": settings.model,
        "api_key": settings.api_key,
    }
    return DeepSeekHarness(**{**given, **options})


def bundled(settings: Settings) -> DeepSeekHarness:
    """Puts this host where the client looks for the runtime that comes with it (S-200, S-179)."""
    package = types.ModuleType("deepseek_harness_runtime")
    package.resolve_bundled_launch_args = lambda mode=None: (settings.binary,)
    package.bundled_default_config_path = lambda: Path(settings.config)
    sys.modules["deepseek_harness_runtime"] = package
    return harness(settings, runtime_bin=None, cordis=None)


def written(settings: Settings, name: str, text: str) -> str:
    path = settings.work / name
    path.write_text(text)
    return str(path)


STRANGER = """
- id: stranger
  name: '@example/no-such-package'
"""


if __name__ == "__main__":
    main(
        Launch(
            harness=harness,
            bundled=bundled,
            misconfigured={
                "no configuration": lambda settings: harness(settings, cordis=None),
                "missing file": lambda settings: harness(settings, cordis=str(settings.work / "nowhere.yml")),
                "broken file": lambda settings: harness(
                    settings, cordis=written(settings, "broken.yml", "- id: [unclosed\n")
                ),
                "unknown package": lambda settings: harness(
                    settings,
                    cordis=written(settings, "stranger.yml", Path(settings.config).read_text() + STRANGER),
                ),
            },
        )
    )
