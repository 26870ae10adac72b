"""Planted faults against house rules: file, old text, faulty text, test that must fail."""

STYLE = "tests/style/"

PLANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "src/fanfold/core/pace.py",
        "from fanfold.units import PS_PER_SECOND\n",
        "from fanfold.live.clock import now_ps\nfrom fanfold.units import PS_PER_SECOND\n",
        STYLE + "test_layers.py::test_imports_point_down",
    ),
    (
        "src/fanfold/core/sender.py",
        "MAX_ROUND = 255\n",
        "MAX_ROUND = int(255.0)\n",
        STYLE + "test_floats.py::test_no_float[core]",
    ),
    (
        "src/fanfold/core/effects.py",
        "Why a packet went no further",
        "Why a QZX went no further",
        STYLE + "test_glossary.py::test_abbreviations_are_explained",
    ),
    (
        "README.md",
        "fanfold lab status\n",
        "fanfold labstatus\n",
        STYLE + "test_readme.py::test_verbs_exist",
    ),
    (
        "README.md",
        "fanfold lab up --leaves 2",
        "fanfold lab up --leafs 2",
        STYLE + "test_readme.py::test_options_exist",
    ),
    (
        "README.md",
        'between = ["leaf1", "h1"]',
        'between = ["leaf1", "h2"]',
        STYLE + "test_readme.py::test_fabric_of_the_readme_loads",
    ),
    (
        "docs/study.md",
        "fanfold study KIND --keys",
        "fanfold study KIND --key",
        STYLE + "test_readme.py::test_options_exist",
    ),
    (
        "docs/study.md",
        "../src/fanfold/study/result.py",
        "../src/fanfold/study/results.py",
        STYLE + "test_readme.py::test_files_that_pages_name_exist",
    ),
    (
        "CONTRIBUTING.md",
        "Start with `make test`.",
        "Start with `make tests`.",
        STYLE + "test_readme.py::test_make_targets_exist",
    ),
    (
        "Makefile",
        "\t$(BIN)/lint-imports\n",
        "\t$(BIN)/lint-imports # FIX" + "ME\n",
        STYLE + "test_files.py::test_no_leftovers[unfinished]",
    ),
)
