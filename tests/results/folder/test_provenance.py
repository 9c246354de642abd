import subprocess
import sys
from dataclasses import replace

from pipeline.results.folder import provenance as module
from pipeline.results.folder.provenance import Gpu, capture
from tests.results.cases import provenance


def git(folder, *arguments):
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", folder, *settings, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_capture_tells_versions_machine_and_time(tmp_path):
    found = capture(Gpu("NVIDIA H200", "580.159"), ["+exp=a", "model.topk=128"], tmp_path)
    assert found.launch_directory == str(tmp_path)
    assert found.packages["numpy"] == sys.modules["numpy"].__version__
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.cores >= 1 and found.cpu
    assert found.device == "NVIDIA H200"
    assert found.utc.endswith("+00:00")
    assert found.reproduce == "python -m pipeline +exp=a model.topk=128"


def test_a_command_without_overrides_is_the_one_that_was_typed(monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["/usr/bin/python3.12", "-m", "pipeline", "+exp=a b"])
    assert capture().reproduce == "python3.12 -m pipeline '+exp=a b'"


def test_an_absent_package_is_none(monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", ("no-such-package",))
    assert capture().packages == {"no-such-package": None}


def test_git_commit_and_dirty_flag(tmp_path, monkeypatch):
    source = tmp_path / "module.py"
    source.write_text("1")
    assert module._git(source) == (None, None)
    git(tmp_path, "init")
    assert module._git(source) == (None, None)
    git(tmp_path, "add", "module.py")
    git(tmp_path, "commit", "-m", "one")
    assert module._git(source) == (git(tmp_path, "rev-parse", "HEAD"), False)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert module._git(source)[1] is False
    source.write_text("2")
    assert module._git(source)[1] is True


def test_a_copy_installed_inside_a_checkout_is_not_that_checkout(tmp_path):
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("venv")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-m", "one")
    installed = tmp_path / "venv" / "module.py"
    installed.parent.mkdir()
    installed.write_text("1")
    assert module._git(installed) == (None, None)


def test_without_a_gpu_the_device_is_the_processor():
    assert replace(provenance(), gpu=None).device == "AMD EPYC, 2 cores"
