"""Tests of files that appear only when they are complete."""

import os
from pathlib import Path

import pytest

from catnip.base import files


def test_a_file_is_written_whole_with_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "new.txt").touch()
    files.write(tmp_path / "report.html", "text")
    assert (tmp_path / "report.html").read_text() == "text"
    assert (tmp_path / "report.html").stat().st_mode == (tmp_path / "new.txt").stat().st_mode
    assert sorted(one.name for one in tmp_path.iterdir()) == ["new.txt", "report.html"]


def test_a_failed_write_keeps_the_former_contents_and_leaves_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("before")
    with pytest.raises(ZeroDivisionError), files.replacing(report) as aside:
        aside.write_text("half")
        raise ZeroDivisionError
    assert report.read_text() == "before"
    assert list(tmp_path.iterdir()) == [report]


def test_a_link_that_waits_for_the_new_file_is_not_followed(tmp_path: Path) -> None:
    victim, report = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("of root")
    (tmp_path / f".report.html.{os.getpid()}").symlink_to(victim)
    with files.replacing(report) as aside:
        assert not aside.is_symlink()
        aside.write_text("text")
    assert (victim.read_text(), report.read_text()) == ("of root", "text")


def test_a_device_is_written_directly() -> None:
    with files.replacing(Path(os.devnull)) as itself:
        assert itself == Path(os.devnull)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write anywhere")
def test_root_writes_through_no_link_of_another_user(tmp_path: Path) -> None:
    victim, report = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("of root")
    report.symlink_to(victim)
    files.write(report, "through a link of its own")
    os.lchown(report, 65534, 65534)
    with pytest.raises(OSError, match="a link or a pipe of another user"):
        files.write(report, "text")
    assert victim.read_text() == "through a link of its own"
