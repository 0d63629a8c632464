"""One folder, one concern: the folders, the lists that name them, their READMEs, the commands they speak of."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.house import tree

ONE_SCREEN = 60
BESIDE_THE_CODE = ("benchmarks", "docs", "manifests", "tests")
NOT_INSTALLED = {"tests", "benchmarks"}


def test_the_five_lists_of_folders_agree() -> None:
    project = tree.project()["tool"]
    build = project["hatch"]["build"]
    lists = {
        "wheel packages": [name.removesuffix("/gpuyard") for name in build["targets"]["wheel"]["packages"]],
        "dev-mode-dirs": build["dev-mode-dirs"],
        "mypy_path": project["mypy"]["mypy_path"].split(":"),
        "mypy files": [name for name in project["mypy"]["files"] if name not in NOT_INSTALLED],
        "pythonpath": [name for name in project["pytest"]["pythonpath"] if name != "."],
    }
    for name, folders in lists.items():
        assert sorted(folders) == tree.components(), name


def test_every_component_is_under_the_import_contracts() -> None:
    packages = {f"gpuyard.{name.replace('-', '_')}" for name in tree.components()}
    assert set(tree.project()["tool"]["importlinter"]["root_packages"]) == packages


def test_gpuyard_itself_is_a_namespace() -> None:
    assert [tree.named(path) for path in tree.files() if tree.named(path).endswith("/gpuyard/__init__.py")] == []
    spec = importlib.util.find_spec("gpuyard")
    assert spec is not None
    assert spec.origin is None


@pytest.mark.parametrize("folder", tree.components())
def test_a_component_holds_one_typed_package_of_its_own_name(folder: str) -> None:
    packages = [path for path in (tree.ROOT / folder / "gpuyard").iterdir() if (path / "py.typed").exists()]
    assert [path.name for path in packages] == [folder.replace("-", "_")]


@pytest.mark.parametrize("folder", [*tree.components(), *BESIDE_THE_CODE])
def test_a_folder_explains_itself_on_one_screen(folder: str) -> None:
    readme = tree.ROOT / folder / "README.md"
    assert readme.exists()
    assert 3 <= len(readme.read_text().splitlines()) <= ONE_SCREEN


def test_every_entry_point_is_there() -> None:
    for name, target in tree.project()["project"]["scripts"].items():
        module, _, function = target.partition(":")
        spec = importlib.util.find_spec(module)
        assert spec is not None, name
        assert spec.origin is not None, name
        assert re.search(rf"^(def|async def|@.*\ndef) {function}\(", Path(spec.origin).read_text(), re.MULTILINE), name


def test_a_process_starts_by_its_module_name_too() -> None:
    scripts = tree.project()["project"]["scripts"]
    for name, target in scripts.items():
        component = name.removeprefix("gpuyard-")
        if component in tree.components() and component != "cli":
            assert target == f"gpuyard.{component.replace('-', '_')}.__main__:main"


def targets() -> set[str]:
    makefile = (tree.ROOT / "Makefile").read_text()
    lines = re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE)
    return {target for line in lines for target in line.split()}


def test_every_make_command_that_is_spoken_of_exists() -> None:
    spoken = {
        (name, command)
        for name, text in tree.texts()
        if name.endswith(".md")
        for command in re.findall(r"(?:^ {4,}|`|\$ )make ([a-z][a-z-]*)", text, re.MULTILINE)
    }
    assert ("README.md", "test") in spoken
    assert {(name, command) for name, command in spoken if command not in targets()} == set()


def test_the_first_screen_of_the_readme_has_the_two_commands() -> None:
    first_screen = (tree.ROOT / "README.md").read_text().splitlines()[:25]
    commands = [line.split()[:2] for line in first_screen if line.startswith("    make")]
    assert commands[:2] == [["make", "demo"], ["make", "test"]]


def test_ci_runs_the_command_of_the_readme() -> None:
    script = tree.ROOT / ".ci" / "run"
    assert script.read_text().splitlines()[-1] == "exec make test"
    assert script.stat().st_mode & 0o111
