"""The viewer: this machine only, nothing outside the runs folder, and true to the records."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.example_runs import ExampleConfig, code_run

from homeostat.core.errors import UserError
from homeostat.core.rundir import open_run
from homeostat.viewer import Viewer
from homeostat.viewer.files import read_inside
from homeostat.viewer.runs import Runs

SECRET = "the-secret-of-another-folder"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two runs, and beside their folder a secret that links and paths try to reach."""
    runs = tmp_path / "runs"
    code_run(runs / "one")
    code_run(runs / "group" / "two", seed=7)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.json").write_text(json.dumps({"metrics": {"x": SECRET}}))
    return runs


@pytest.fixture
def viewer(root: Path) -> Iterator[Viewer]:
    with Viewer(root) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(viewer: Viewer, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host if host is not None else f"127.0.0.1:{viewer.port}")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, answer.headers


def ask(viewer: Viewer, path: str) -> Any:
    status, body, _ = get(viewer, path)
    assert status == 200, body
    return json.loads(body)


TRAVERSALS = [
    "../outside/secret.json",
    "..%2foutside%2fsecret.json",
    "%2e%2e/outside/secret.json",
    "%2e%2e%2foutside%2fsecret.json",
    "%252e%252e%252foutside%252fsecret.json",
    "one/../../outside/secret.json",
    "one/%2e%2e/%2e%2e/outside/secret.json",
    "one\\..\\..\\outside\\secret.json",
    "one/..%5c..%5coutside%5csecret.json",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "one%00/../../outside/secret.json",
    "one/metrics/%ff%fe.json",
    "..%c0%afoutside/secret.json",
    "one/.lock",
    "",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_out_of_the_runs_folder(viewer: Viewer, path: str) -> None:
    for address in (
        f"/files/{path}",
        f"/api/run?path={path}",
        f"/api/run?path={quote(path)}",
        f"/api/samples?path={quote(path)}",
        f"/report?path={quote(path)}",
        f"/api/compare?path={quote(path)}&path=one",
    ):
        if " " in address:
            continue
        status, body, _ = get(viewer, address)
        assert status == 404 and body == b"not found"


def test_links_out_of_the_runs_folder_are_not_followed(viewer: Viewer, root: Path) -> None:
    outside = root.parent / "outside"
    code_run(outside / "run")
    (root / "linked_run").symlink_to(outside / "run")
    (root / "linked_folder").symlink_to(outside)
    (root / "one" / "metrics" / "linked.json").symlink_to(outside / "secret.json")
    (root / "one" / "logs").symlink_to(outside)
    (outside / "figures").mkdir()
    (outside / "figures" / "secret.png").write_bytes(SECRET.encode())
    (root / "one" / "paper").symlink_to(outside)
    (root / "one" / "notes.json").symlink_to(outside / "secret.json")
    (root / "one" / "config_resolved.yaml").unlink()
    (root / "one" / "config_resolved.yaml").symlink_to(outside / "secret.json")
    assert {run["path"] for run in ask(viewer, "/api/runs")["runs"]} == {"one", "group/two"}
    for path in ("linked_run", "linked_folder/run"):
        assert get(viewer, f"/api/run?path={path}")[0] == 404
    for path in (
        "linked_folder/secret.json",
        "one/metrics/linked.json",
        "one/notes.json",
        "one/config_resolved.yaml",
    ):
        assert get(viewer, f"/files/{path}")[0] == 404
    for path in ("/api/runs", "/api/run?path=one", "/report?path=one", "/api/samples?path=one"):
        status, body, _ = get(viewer, path)
        assert status == 200 and SECRET.encode() not in body and b64encode(SECRET.encode()) not in body


def test_a_link_swapped_in_at_the_last_moment_is_not_followed_either(root: Path) -> None:
    (root / "one" / "deep").symlink_to(root.parent / "outside")
    with pytest.raises(LookupError):
        read_inside(root, "one/deep/secret.json")


def test_files_are_served_as_inert_types_only(viewer: Viewer, root: Path) -> None:
    (root / "one" / "page.html").write_text("<script>1</script>")
    status, body, headers = get(viewer, "/files/one/metrics/repeatability_metrics.json")
    assert status == 200 and json.loads(body)["metrics"]
    assert headers["Content-Type"].startswith("text/plain") and headers["X-Content-Type-Options"] == "nosniff"
    assert get(viewer, "/files/one/page.html")[0] == 404
    assert get(viewer, "/files/one")[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost.evil.example", ""]
)
def test_requests_under_another_host_name_are_refused(viewer: Viewer, host: str) -> None:
    status, body, _ = get(viewer, "/api/runs", host=host)
    assert status == 403 and b"one" not in body


def test_localhost_by_name_is_answered(viewer: Viewer) -> None:
    assert get(viewer, "/", host=f"localhost:{viewer.port}")[0] == 200


def test_it_listens_on_the_loopback_address_only(viewer: Viewer) -> None:
    assert viewer.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_offered(viewer: Viewer, method: str) -> None:
    assert get(viewer, "/api/runs", method=method)[0] in (405, 501)


def test_every_answer_forbids_foreign_content(viewer: Viewer) -> None:
    for path in ("/", "/report?path=one", "/api/runs", "/nothing"):
        policy = get(viewer, path)[2]["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy


def test_runs_are_listed_with_status_and_recorded_figures(viewer: Viewer, root: Path) -> None:
    with open_run(root / "going", command="homeostat cache run", config=ExampleConfig()) as run:
        run.log("train").append(3, loss_total=0.5)
        runs = {r["path"]: r for r in ask(viewer, "/api/runs")["runs"]}
        assert runs["going"]["status"] == "running" and runs["going"]["last"] == "train 3"
        assert runs["one"]["status"] == "complete" and runs["one"]["systems"] == ["code"]
        assert {f["name"]: f["value"] for f in runs["one"]["figures"]}["R_anchor"] == 0.75
        assert runs["one"]["spark"]["values"] == [0.75, 0.75]
    assert {r["path"]: r["status"] for r in ask(viewer, "/api/runs")["runs"]}["going"] == "interrupted"


def test_a_run_still_going_is_followed_and_an_unchanged_one_is_not_sent_again(
    viewer: Viewer, root: Path
) -> None:
    with open_run(root / "going", command="homeostat cache run", config=ExampleConfig()) as run:
        run.log("train").append(0, loss_total=1.0)
        first = ask(viewer, "/api/run?path=going")
        assert "data" not in ask(viewer, f"/api/run?path=going&have={first['version']}")
        for step in range(1, 5):
            run.log("train").append(step, loss_total=1.0 / step)
        later = ask(viewer, f"/api/run?path=going&have={first['version']}")
    text = json.dumps(later["data"])
    assert later["data"]["status"] == "running" and '"loss_total"' in text


def test_two_runs_are_compared_by_figures_settings_and_curves(viewer: Viewer) -> None:
    data = ask(viewer, "/api/compare?path=one&path=group/two")["data"]
    sections = {s["id"]: s["blocks"] for s in data["sections"]}
    figures = sections["figures"][0]
    assert [c["name"] for c in figures["columns"]] == ["figure", "one", "group/two", "group/two − one"]
    anchor = next(row for row in figures["rows"] if row[0] == "repeatability to the canon")
    assert anchor[1]["v"] == anchor[2]["v"] == 0.75
    assert (anchor[3]["v"], anchor[3]["tone"]) == (0, "same")
    assert ["seed", "0", "7"] in sections["settings"][0]["rows"]
    dots = next(b for b in sections["curves"] if b["kind"] == "dots")
    assert dots["names"] == ["one", "group/two"]


def test_a_folder_that_is_itself_a_run_is_shown(root: Path) -> None:
    runs = Runs(root / "one")
    assert [r["path"] for r in runs.summaries()] == ["."] and runs.locate(".") == (root / "one").resolve()


def test_an_unchanged_run_is_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(root)
    first = runs.summaries()
    monkeypatch.setattr(Runs, "_summarise", lambda *_: pytest.fail("read again"))
    assert runs.summaries() == first


def test_a_missing_folder_and_a_bad_port_are_users_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        Viewer(tmp_path / "absent")
    with pytest.raises(UserError, match="between 0 and 65535"):
        Viewer(tmp_path, 70000)


def test_a_second_viewer_on_the_same_port_says_so(viewer: Viewer, root: Path) -> None:
    command = [sys.executable, "-m", "homeostat", "view", str(root), "--port", str(viewer.port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 2
    assert "already serves" in done.stderr and str(root.resolve()) in done.stderr and "--port" in done.stderr


def test_a_port_taken_by_another_program_is_named(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        threading.Thread(target=lambda: other.accept()[0].close(), daemon=True).start()
        with pytest.raises(UserError, match=f"port {port} is taken by another program"):
            Viewer(root, port)
