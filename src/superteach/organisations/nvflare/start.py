"""Starting the two resident processes: the coordinator's server and a teacher. Each becomes the process it starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from superteach.errors import SettingError
from superteach.organisations.nvflare import JOINED, require
from superteach.organisations.nvflare.kits import write_json
from superteach.organisations.site.rows import Holding, open_holding
from superteach.promises.policy import Policy, read_policy


def prepare_teacher(
    kit: Path, data: Path, target: str, features: Sequence[str] | None, policy: Path | None, threads: int
) -> tuple[str, str, Holding, Policy]:
    """Check kit, rows and policy, note in the kit what lessons will work with, and return name, server, rows, policy."""
    require()
    startup = kit / "startup" / "fed_client.json"
    name, server = _read_startup(startup, "teacher")
    place = (kit / "policy.toml" if policy is None else policy).resolve()
    rules = read_policy(place)
    holding = open_holding(name, data, target, features)
    holding.check(rules)
    if rules.write != "nothing":
        rules.folder.mkdir(parents=True, exist_ok=True)
    told = {
        "data": str(data.resolve()),
        "target": target,
        "features": None if features is None else list(features),
        "policy": str(place),
        "threads": threads,
    }
    write_json(kit / "local" / JOINED, told)
    return name, server, holding, rules


def become_teacher(kit: Path, name: str) -> NoReturn:
    """Replace this process by NVFlare's client."""
    _become("client.client_train", kit, "fed_client.json", f"uid={name}", f"org={name}")


def become_server(kit: Path) -> NoReturn:
    """Replace this process by NVFlare's server."""
    # A lesson that went on without a lost teacher is over all the same; NVFlare would wait 15 minutes for its word.
    os.environ.setdefault("NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT", "5")
    _become("server.server_train", kit, "fed_server.json", "org=coordinator")


def prepare_server(kit: Path) -> str:
    """Keep the server's files within its kit, wherever that lies now; return host and port."""
    require()
    server = _read_startup(kit / "startup" / "fed_server.json", "server")[1]
    place = kit / "local" / "resources.json"
    resources = json.loads(place.read_text(encoding="utf-8"))
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str((kit / "snapshots").resolve())
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str((kit / "jobs").resolve())
    write_json(place, resources)
    return server


def _read_startup(path: Path, role: str) -> tuple[str, str]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        server = stored["servers"][0]["service"]["target"]
        return str(stored.get("client", {}).get("fqsn", "server")), str(server)
    except OSError:
        raise SettingError(f"{str(path.parent.parent)!r} is no start-up kit of a {role}: {path} is missing") from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise SettingError(f"{str(path)!r} is damaged; ask for the kit again") from None


def _become(module: str, kit: Path, config: str, *settings: str) -> NoReturn:
    place = str(kit.resolve())
    arguments = [
        "-m",
        "superteach.organisations.nvflare.resident",
        f"nvflare.private.fed.app.{module}",
        "-m",
        place,
        "-s",
        config,
    ]
    arguments += ["--set", "secure_train=true", *settings, "config_folder=config"]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-u", *arguments])
