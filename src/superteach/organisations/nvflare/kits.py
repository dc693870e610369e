"""Start-up kits: NVFlare's own provisioning makes certificates and folders; then every kit is closed down.

What a fresh NVFlare kit allows and a teacher here does not: jobs that ship code, components of any other class,
shell commands of an administrator (they read files), remote shut-down, and streams of logs to the server.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from superteach.errors import SettingError
from superteach.organisations.nvflare import ACCEPTED, CLIENT, GREETER, SERVER, mark_of, require
from superteach.organisations.nvflare.preflight import read_certificate
from superteach.privacy.policy import template
from superteach.types import Json
from superteach.versions import VERSION

FEDERATION = "federation.json"
KIT = "superteach-kit.json"
"""In each kit: the version that made it."""
SILENCE = 120
"""Seconds without a heartbeat after which the server counts a teacher as gone (NVFlare's own: 600)."""
SCHEDULE = {"max_schedule_count": 4, "min_schedule_interval": 1.0, "max_schedule_interval": 2.0}
"""A lesson whose teachers are not all there is tried four times within some ten seconds and then ended (NVFlare's own: ten
times, after 10, 20, 40 … seconds)."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62})")


@dataclass(frozen=True)
class Project:
    """A federation as its founder's folder describes it."""

    name: str
    host: str
    port: int
    coordinator: str
    teachers: list[str]


def found(
    folder: Path,
    teachers: Sequence[str],
    host: str = "localhost",
    port: int = 8002,
    coordinator: str = "coordinator@superteach.local",
    days: int = 360,
) -> Project:
    """Make a folder with one kit for the server, one for the coordinator and one for each teacher."""
    require()
    project = check_project(Project("superteach", host, port, coordinator, list(teachers)))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingError(f"{str(folder)!r} exists and is not empty; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    secret = folder / "certificate-authority"
    kits = provision(project, secret, days)
    _close_server(kits / host)
    shutil.move(kits / host, folder / "server")
    shutil.move(kits / coordinator, folder / "coordinator")
    marks = {teacher: mark_of(read_certificate(kits / teacher / "startup" / "client.crt")) for teacher in teachers}
    for teacher in teachers:
        close_teacher(kits / teacher, coordinator, list(marks.values()))
        shutil.move(kits / teacher, folder / "teachers" / teacher)
    write_json(folder / "server" / "local" / ACCEPTED, marks)
    for kit in (folder / "server", folder / "coordinator"):
        write_json(kit / KIT, {"version": VERSION})
    write_json(folder / FEDERATION, asdict(project))
    make_private(folder)
    return project


def read_project(folder: Path) -> Project:
    """Read the federation that a folder describes."""
    try:
        return Project(**json.loads((folder / FEDERATION).read_text(encoding="utf-8")))
    except OSError:
        raise SettingError(
            f"{str(folder)!r} holds no federation; run  superteach federation init {folder} --teacher NAME …"
        ) from None
    except (ValueError, TypeError):
        raise SettingError(f"{str(folder / FEDERATION)!r} is damaged") from None


def check_project(project: Project) -> Project:
    """Refuse names, host and port that cannot be."""
    if not project.teachers:
        raise SettingError("a federation needs teachers; name each with --teacher")
    for teacher in project.teachers:
        if not NAME.fullmatch(teacher) or teacher in ("server", "coordinator"):
            raise SettingError(f"teacher {teacher!r}: a name has letters, digits, - and _, 63 of them at most")
        if project.teachers.count(teacher) > 1:
            raise SettingError(f"teacher {teacher!r} is named twice")
    if not HOST.fullmatch(project.host):
        raise SettingError(f"--host {project.host!r} must be the name under which teachers reach the server")
    if not 0 < project.port < 65536:
        raise SettingError(f"--port {project.port} must be from 1 to 65535")
    if not re.fullmatch(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", project.coordinator):
        raise SettingError(f"--coordinator {project.coordinator!r} must look like name@organisation.example")
    return project


def provision(project: Project, secret: Path, days: int) -> Path:
    """Let NVFlare make keys and certificates for whoever is new, and kits for all; return the folder of the kits."""
    from nvflare.lighter.prov_utils import prepare_builders, prepare_packager
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    impl = "nvflare.lighter.impl"
    plan: Json = {
        "api_version": 3,
        "name": project.name,
        "description": "superteach",
        "gen_scripts": False,
        "participants": [
            {"name": project.host, "type": "server", "org": "coordinator", "fed_learn_port": project.port},
            *({"name": teacher, "type": "client", "org": teacher} for teacher in project.teachers),
            {"name": project.coordinator, "type": "admin", "org": "coordinator", "role": "lead"},
        ],
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder", "args": {"template_file": ["master_template.yml"]}},
            {"path": f"{impl}.static_file.StaticFileBuilder", "args": {"config_folder": "config", "scheme": "grpc"}},
            {"path": f"{impl}.cert.CertBuilder", "args": {"root_valid_days": days}},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }
    write_json(secret.parent / "project.json", plan)
    said, before = io.StringIO(), set((secret / project.name).glob("prod_*"))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        Provisioner(str(secret), prepare_builders(plan), prepare_packager(plan)).provision(prepare_project(plan))
    made = sorted(set((secret / project.name).glob("prod_*")) - before)
    if not made:
        raise SettingError(f"NVFlare could not make the kits: {said.getvalue().strip()[:600]}")
    return made[-1]


def _close_server(kit: Path) -> None:
    """Allow jobs of this package's own controller and no other, and no shipped code."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_allow_list"] = [SERVER]
    resources["servers"][0]["heart_beat_timeout"] = SILENCE
    kept = ("job_scheduler", "job_manager", "job_store", "process_launcher")
    resources["components"] = [entry for entry in resources["components"] if entry["id"] in kept]
    for entry in resources["components"]:
        if entry["id"] == "job_scheduler":
            entry["args"] |= SCHEDULE
    _close(local, resources, download_job="n:submitter", operate="any", app_command="n:submitter")


def close_teacher(kit: Path, coordinator: str, teachers: Sequence[str]) -> None:
    """Allow one class: no shipped code, no shell, no shut-down from afar, no streams of logs. Add a policy."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_allow_list"] = [CLIENT]
    resources["allow_log_streaming"] = False
    common = "nvflare.app_common"
    parts = {
        "resource_manager": f"{common}.resource_managers.passthrough_resource_manager.PassthroughResourceManager",
        "resource_consumer": f"{common}.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
        "process_launcher": f"{common}.job_launcher.client_process_launcher.ClientProcessJobLauncher",
        "greeter": GREETER,
    }
    resources["components"] = [{"id": name, "path": path, "args": {}} for name, path in parts.items()]
    _close(local, resources, download_job="none", operate="none")
    (kit / "policy.toml").write_text(template([coordinator], teachers), encoding="utf-8")
    write_json(kit / KIT, {"version": VERSION})


def _close(local: Path, resources: Json, **rights: str) -> None:
    """Set what a site loads and what the coordinator's role may do there; other roles may do nothing. Logs go to files."""
    write_json(local / "resources.json", resources)
    lead = {
        "submit_job": "any",
        "clone_job": "none",
        "manage_job": "n:submitter",
        "view": "any",
        "shell_commands": "none",
        "byoc": "none",
        "server-predeployed-flwr": "none",
        **rights,
    }
    write_json(local / "authorization.json", {"format_version": "1.0", "permissions": {"lead": lead}})
    config = json.loads((local / "log_config.json.default").read_text(encoding="utf-8"))
    config["loggers"]["root"]["handlers"].remove("consoleHandler")
    del config["handlers"]["consoleHandler"]
    write_json(local / "log_config.json", config)


def make_private(folder: Path) -> None:
    """Close keys and kits to all but their owner."""
    for root, folders, files in os.walk(folder):
        for entry in folders:
            Path(root, entry).chmod(0o700)
        for entry in files:
            Path(root, entry).chmod(0o700 if entry.endswith(".sh") else 0o600)


def write_json(path: Path, stored: object) -> None:
    """Write a file for NVFlare, or for whoever looks into a kit."""
    path.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
