"""Start-up kits: closed by default, and errors that name what does not fit."""

from __future__ import annotations

import json
import stat

import pytest

from superteach.errors import SettingError
from superteach.organisations.nvflare.kits import found, read_project
from superteach.organisations.nvflare.start import prepare_teacher
from superteach.privacy.policy import draft, read_policy


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kits") / "home"
    found(folder, ["north", "south"], port=18999)
    return folder


def test_a_teachers_kit_is_closed(home):
    """No shipped code, one class, no shell, no streams of logs, for every role there is."""
    local = home / "teachers" / "north" / "local"
    permissions = json.loads((local / "authorization.json").read_text())["permissions"]
    assert list(permissions) == ["lead"]
    assert {permissions["lead"][right] for right in ("byoc", "shell_commands", "operate", "download_job")} == {"none"}
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_allow_list"] == ["superteach.organisations.nvflare.client.TeacherExecutor"]
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    assert not any("log" in component["id"] for component in resources["components"])
    policy = read_policy(home / "teachers" / "north" / "policy.toml")
    assert policy.coordinators == (read_project(home).coordinator,)
    assert (policy.promise, policy.epsilon, len(set(policy.teachers))) == ("epsilon", 1.0, 2)


def test_the_servers_kit_refuses_code_too(home):
    """A server as it is made accepts no shipped code and no other controller."""
    local = home / "server" / "local"
    lead = json.loads((local / "authorization.json").read_text())["permissions"]["lead"]
    assert (lead["byoc"], lead["shell_commands"]) == ("none", "none")
    resources = json.loads((local / "resources.json").read_text())
    assert resources["class_allow_list"] == ["superteach.organisations.nvflare.server.LessonController"]


def test_mutual_tls_is_in_every_kit(home):
    """Whatever NVFlare's defaults become."""
    for path in home.glob("**/fed_*.json"):
        assert '"connection_security": "mtls"' in path.read_text(), path


def test_keys_are_for_their_owner(home):
    """No file of a kit can be read by anybody else."""
    for path in home.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"teachers": []}, "needs teachers"),
        ({"teachers": ["a", "a"]}, "named twice"),
        ({"teachers": ["a/b"]}, "letters, digits"),
        ({"teachers": ["server"]}, "letters, digits"),
        ({"teachers": ["a"], "host": "no host"}, "--host"),
        ({"teachers": ["a"], "port": 70000}, "--port"),
        ({"teachers": ["a"], "coordinator": "me"}, "--coordinator"),
    ],
)
def test_what_cannot_be_founded_is_named(options, reason, tmp_path):
    with pytest.raises(SettingError, match=reason):
        found(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_an_existing_folder_is_left_alone(home):
    with pytest.raises(SettingError, match="not empty"):
        found(home, ["north"])


def test_joining_checks_kit_rows_and_policy(home, data, tmp_path):
    """Before any connection."""
    file, kit = data.files["north"], home / "teachers" / "north"
    with pytest.raises(SettingError, match="no start-up kit of a teacher"):
        prepare_teacher(tmp_path, file, "ill", None, None, 1)
    with pytest.raises(SettingError, match=r"declares nothing of the rows: .* superteach federation declare FILE"):
        prepare_teacher(kit, file, "ill", None, None, 1)
    told = tmp_path / "told.toml"
    told.write_text((kit / "policy.toml").read_text() + draft(150, ["x0", "x1"], "ill", [0, 1]))
    with pytest.raises(SettingError, match="other columns than the file has"):
        prepare_teacher(kit, file, "ill", None, told, 1)
    name, server, holding, _ = prepare_teacher(kit, file, "ill", ["x0", "x1"], told, 1)
    assert (name, server, holding.count) == ("north", "localhost:18999", 150)
    told = json.loads((kit / "local" / "superteach.json").read_text())
    assert told["features"] == ["x0", "x1"]
