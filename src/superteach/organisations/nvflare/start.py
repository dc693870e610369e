"""Starting the two resident processes: the coordinator's server and a teacher. Each becomes the process it starts."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from superteach.errors import SettingError, TeachingError
from superteach.organisations.nvflare import HEARTBEAT, JOINED, require
from superteach.organisations.nvflare.kits import KIT, write_json
from superteach.organisations.site.rows import Holding, open_holding
from superteach.privacy.policy import Policy, read_policy
from superteach.processes.disk import hold, stamp
from superteach.versions import VERSION, misfit


def prepare_teacher(
    kit: Path, data: Path, target: str, features: Sequence[str] | None, policy: Path | None, threads: int
) -> tuple[str, str, Holding, Policy]:
    """Check kit, rows and policy, note in the kit what lessons will work with, and return name, server, rows, policy."""
    require()
    startup = kit / "startup" / "fed_client.json"
    name, server = _read_startup(startup, "teacher")
    _check_kit(kit)
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
        "stamp": stamp(data),
    }
    try:
        write_json(kit / "local" / JOINED, told)
    except OSError as error:
        raise SettingError(
            f"{str(kit)!r} cannot be written: {error.strerror}; make room, or give it back its rights"
        ) from None
    return name, server, holding, rules


def become_teacher(kit: Path, name: str) -> NoReturn:
    """Replace this process by NVFlare's client."""
    beat = f"heart_beat_interval={HEARTBEAT:g}"
    _become("client.client_train", kit, "fed_client.json", f"uid={name}", f"org={name}", beat)


def become_server(kit: Path) -> NoReturn:
    """Replace this process by NVFlare's server."""
    # A lesson that went on without a lost teacher is over all the same; NVFlare would wait 15 minutes for its word.
    os.environ.setdefault("NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT", "5")
    _become("server.server_train", kit, "fed_server.json", "org=coordinator")


def prepare_server(kit: Path) -> str:
    """Keep the server's files within its kit, wherever that lies now; return host and port."""
    require()
    server = _read_startup(kit / "startup" / "fed_server.json", "server")[1]
    _check_kit(kit)
    use_alone(kit, "this federation is served already")
    _check_port(server)
    place = kit / "local" / "resources.json"
    resources = json.loads(place.read_text(encoding="utf-8"))
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str((kit / "snapshots").resolve())
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str((kit / "jobs").resolve())
    write_json(place, resources)
    return server


def use_alone(kit: Path, otherwise: str) -> None:
    """Refuse a kit that another process of this machine uses; the lock lasts as long as this process, through exec too."""
    if not (kit / "startup").is_dir():
        return  # no kit: whoever reads it says so
    handle, other = hold(kit / ".lock")
    if handle < 0:
        raise TeachingError(f"{otherwise}, by process {other}; end that one first")


def _check_port(server: str) -> None:
    """Refuse a port that somebody listens on: NVFlare would share it, and each would hear half of the teachers."""
    host, _, port = server.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1" if host == "localhost" else "", int(port)))
        except OSError as error:
            raise TeachingError(
                f"port {port} cannot be opened ({error.strerror}): end what uses it, or found a federation with another one "
                "(--port)"
            ) from None


def _check_kit(kit: Path) -> None:
    """Refuse a kit of a version that does not fit."""
    place = kit / KIT
    made = json.loads(place.read_text(encoding="utf-8"))["version"] if place.exists() else VERSION
    if odd := misfit("this program", VERSION, f"the kit {str(kit)!r} was made by one of version", made):
        raise SettingError(odd)


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
    resident = ["-u", "-m", "superteach.organisations.nvflare.resident", f"nvflare.private.fed.app.{module}"]
    told = ["-m", str(kit.resolve()), "-s", config, "--set", "secure_train=true", *settings, "config_folder=config"]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *resident, *told])
