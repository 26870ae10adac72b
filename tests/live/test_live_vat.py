"""Trees that were laid elsewhere are installed on running nodes, and ranks use them."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from live_group import Group, values
from live_site import LiveLab, Site

from fanfold.errors import ConfigError
from fanfold.group.communicator import GroupError, Op
from fanfold.topo.fabric import Fabric
from fanfold.topo.fabric_file import load_fabric, save_fabric
from fanfold.topo.vat_file import load_vat_file
from fanfold.topo.vat_laid import LaidTree, lay_trees
from fanfold.units import PS_PER_SECOND

pytestmark = pytest.mark.live

N = 6
HOSTS = [f"h{i + 1}" for i in range(N)]
SLOTS = 32
GROUP = 0x1A1D


@pytest.fixture(scope="module")
def lab(site: Site) -> Iterator[LiveLab]:
    made = LiveLab(site, "laid", "--leaves", 3, "--spines", 2, "--hosts", N)
    yield made
    made.down()


@pytest.fixture(scope="module")
def fabric(lab: LiveLab) -> Fabric:
    return load_fabric(lab.folder / "fabric.toml")


def trees_at(site: Site, lab: LiveLab, root: str, folder: Path) -> Path:
    """A file of one tree over the lab's fabric, as `fanfold vat` prints it."""
    where = f"import:{lab.folder / 'fabric.toml'}"
    flags = ("--members", ",".join(HOSTS), "--root", root, "--quota", SLOTS)
    made = site.run("vat", "--topology", where, *flags, "--json")
    assert made.returncode == 0, made.stderr
    file = folder / f"{root}.json"
    file.write_text(made.stdout)
    return file


def laid(fabric: Fabric, file: Path) -> LaidTree:
    (tree,) = lay_trees(fabric, load_vat_file(file))
    return tree


@pytest.mark.parametrize("root", ["spine1", "leaf1", "h3"])
def test_ranks_add_up_in_a_tree_that_nobody_armed(
    site: Site, lab: LiveLab, fabric: Fabric, tmp_path: Path, root: str
) -> None:
    file = trees_at(site, lab, root, tmp_path)
    flags = ("vat", "--check", file)
    made = site.run(*flags, "--install", lab.name, "--group", GROUP)
    assert (made.returncode, made.stderr) == (0, "")
    assert f"job0: group {GROUP}, {N} ranks, " in made.stdout
    before = lab.status(root)["arrays"].get("complete", 0)
    group = Group(fabric, HOSTS, number=GROUP, laid=laid(fabric, file))
    for n in (1, 5000, 3 * SLOTS * 2048):
        every = [values("int32", n, seed) for seed in range(N)]
        mine = [array.copy() for array in every]
        group.each(lambda c, mine=mine: c.all_reduce(mine[c.rank]))
        for array in mine:
            np.testing.assert_array_equal(array, np.sum(every, axis=0))
    floats = [values("float32", 40_000, seed) for seed in range(N)]
    exact = np.sum(floats, axis=0, dtype=np.float64)
    group.each(lambda c: c.all_reduce(floats[c.rank], Op.SUM))
    assert len({array.tobytes() for array in floats}) == 1
    np.testing.assert_allclose(floats[0], exact, rtol=1e-4, atol=1e-5)
    assert group.count("arms") == 0
    assert lab.status(root)["arrays"]["complete"] >= before + 3 * SLOTS * 2048 * 4 // 8192
    group.close()
    assert site.run(*flags, "--install", lab.name, "--group", GROUP).returncode == 0
    again = Group(fabric, HOSTS, number=GROUP, laid=laid(fabric, file))  # from block 0 on
    ones = [np.ones(9, np.int32) for _ in HOSTS]
    again.each(lambda c: c.all_reduce(ones[c.rank]))
    assert ones[0].tolist() == [N] * 9
    again.close()
    assert site.run(*flags, "--remove", lab.name, "--group", GROUP).returncode == 0
    gone = Group(fabric, HOSTS, number=GROUP, laid=laid(fabric, file), timeout_ps=PS_PER_SECOND)
    told = gone.errors(lambda c: c.all_reduce(ones[c.rank]))
    assert all("the tree is installed" in str(error) for error in told)
    assert all(isinstance(error, GroupError) and error.is_deadline for error in told)
    gone.close()


def test_what_cannot_be_installed_is_one_line(
    site: Site, lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    file = trees_at(site, lab, "spine1", tmp_path)
    tree = json.loads(file.read_text())

    def told(**changed: object) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(tree | {"jobs": [tree["jobs"][0] | changed]}))
        return str(path)

    away = load_fabric(lab.folder / "fabric.toml")
    nobody = tmp_path / "nobody.toml"
    port = {"port": away.port + 1}
    save_fabric(Fabric(**{f: getattr(away, f) for f in away.__struct_fields__} | port), nobody)
    ends = [
        site.run("vat", *words)
        for words in (
            ("--check", told(workers=["h1", "h99"]), "--install", lab.name),
            ("--check", told(quota=2**20), "--install", lab.name),
            ("--check", told(quota=7), "--install", lab.name),
            ("--check", file, "--install", "nolab"),
            ("--check", file, "--install", nobody),
            ("--install", lab.name),
        )
    ]
    lines = [end.stderr.strip() for end in ends]
    assert [end.returncode for end in ends] == [2, 2, 2, 3, 3, 2]
    assert [line.count("\n") for line in lines] == [0] * len(lines)
    assert lines[0].startswith("error: jobs[0].workers: got 'h99', allowed: a name of ")
    assert lines[1].startswith(f"error: jobs[0].quota: got {2**20}, allowed: an even number")
    assert lines[2].startswith("error: jobs[0].quota: got 7, allowed: an even number, 16..")
    assert "lab 'nolab': there is none" in lines[3]
    assert "no answer: " in lines[4]
    assert lines[4].endswith("no tree was installed")
    assert lines[5].startswith("error: --check: got 'nothing', allowed: a file of trees")


def test_ranks_of_other_members_or_rules_are_refused(
    site: Site, lab: LiveLab, fabric: Fabric, tmp_path: Path
) -> None:
    tree = laid(fabric, trees_at(site, lab, "spine1", tmp_path))
    with pytest.raises(ConfigError, match="members: got 'h1, h2'"):
        Group(fabric, HOSTS[:2], laid=tree)
    with pytest.raises(ConfigError, match="stragglers: got 'exclude'"):
        Group(fabric, HOSTS, laid=tree, stragglers="exclude")
