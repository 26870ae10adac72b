"""Who may make namespaces."""

import pytest

from fanfold.errors import EnvironmentLack
from fanfold.live import space_build


@pytest.mark.parametrize("user", [0, 1000])
def test_who_is_not_root_lacks_something_and_asked_for_nothing_wrong(
    monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(space_build.os, "geteuid", lambda: user)
    if user == 0:
        space_build.require_root()
        return
    with pytest.raises(EnvironmentLack, match=r"^--namespaces: needs root") as caught:
        space_build.require_root()
    assert caught.value.exit_code == 3
