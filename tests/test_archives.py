"""Nothing that is packed unpacks to much more than it is: bombs of each format are refused, and soon.

Slips that were tried: the bound of each part alone, not of all together; members with holes read; what a link in an
archive points to not counted; the headers of an archive not counted.
"""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from memjax import archives, environments, tasks
from memjax.errors import MemjaxError
from memjax.tasks.builders.babi_format import read_extra
from memjax.tasks.builders.babi_records import prepare

PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "": bytes}
STORY = b"1 Mary moved to the bathroom.\n2 Where is Mary?\tbathroom\t1\n"


@pytest.fixture
def small(monkeypatch):
    """What may be unpacked in any case is little, so that bombs can be."""
    monkeypatch.setattr(archives, "FLOOR", 50_000)


def refused(function, *arguments):
    with pytest.raises(MemjaxError) as caught:
        function(*arguments)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def tar(members):
    """The bytes of an archive of (name, content), or of members that were made before."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def text(folder, file):
    return tasks.create(tasks.LanguageSpec(file, "word", 4, 8, str(folder)))


@pytest.mark.parametrize("packer", PACKERS)
def test_what_is_packed_as_texts_are_is_read(small, tmp_path, packer, rng):
    words = " ".join(map(str, rng.integers(0, 10**6, 30_000))).encode()  # more than the floor
    (tmp_path / "a.tar").write_bytes(PACKERS[packer](tar([("a.txt", words)])))
    (tmp_path / "a.txt").write_bytes(PACKERS[packer](words))
    assert text(tmp_path, "a.tar").size("train") > 0 and text(tmp_path, "a.txt").size("train") > 0


@pytest.mark.parametrize("packer", ["gz", "bz2", "xz"])
def test_a_packed_text_or_archive_that_unpacks_to_far_more_is_refused(small, tmp_path, packer):
    words = b"a word " * 200_000
    for name, content in {"a.txt": words, "a.tar": tar([("a.txt", words)])}.items():
        (tmp_path / name).write_bytes(PACKERS[packer](content))
        assert "unpacks to far more" in refused(text, tmp_path, name)
    babi = PACKERS[packer](tar([("en/qa1_train.txt", STORY * 20_000)]))
    (tmp_path / "babi").write_bytes(babi)
    assert "unpacks to far more" in refused(prepare, tmp_path / "babi", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_real_bomb_takes_neither_long_nor_much_memory(tmp_path):
    """2 MB that unpack to 2 GB."""
    zeros = gzip.compress(bytes(2**24), 9)
    (tmp_path / "a.txt").write_bytes(zeros * 128)
    tracemalloc.start()
    began = time.process_time()
    assert "unpacks to far more" in refused(text, tmp_path, "a.txt")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * 2 * archives.limit(len(zeros) * 128) and time.process_time() - began < 20


def test_what_a_zip_archive_says_of_itself_is_believed_before_it_is_read(small, tmp_path):
    for name, compression in {"a.zip": zipfile.ZIP_DEFLATED, "b.zip": zipfile.ZIP_LZMA}.items():
        with zipfile.ZipFile(tmp_path / name, "w", compression) as archive:
            for split in ("train", "valid", "test"):
                archive.writestr(f"ptb.{split}.txt", b"a word " * 10**6)
            archive.writestr("en/qa1_train.txt", STORY * 100_000)
        assert "unpacks to far more" in refused(text, tmp_path, name)
        assert "unpacks to far more" in refused(prepare, tmp_path / name, tmp_path / "data")


def test_parts_that_are_each_within_the_bound_are_counted_together(small, tmp_path):
    part = gzip.compress(STORY * 600)  # 35,000 bytes from some 200
    folder = tmp_path / "tasks" / "en"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for task in range(1, 60):
            archive.writestr(f"en/qa{task}_train.txt.gz", part)
            (folder / f"qa{task}_train.txt.gz").write_bytes(part)
    for source in (tmp_path / "a.zip", tmp_path / "tasks"):
        assert "unpacks to far more" in refused(prepare, source, tmp_path / "data")
    bomb = tmp_path / "qa1_train.txt.gz"
    bomb.write_bytes(gzip.compress(bytes(10**8)))
    tracemalloc.start()
    assert "unpacks to far more" in refused(read_extra, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 10**7  # it was never unpacked whole


def test_an_archive_of_headers_alone_is_counted_too(small, tmp_path):
    header = tar([("a.txt", b"")])[:512]
    (tmp_path / "a.tar").write_bytes(gzip.compress(header * 20_000 + bytes(1024)))
    assert "unpacks to far more" in refused(text, tmp_path, "a.tar")


def holes(name):
    """A member that says it is a terabyte, of which there is no byte."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.REGTYPE
    info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(2**40)}
    info.pax_headers |= {"GNU.sparse.map": f"{2**40},0", "GNU.sparse.numblocks": "1", "GNU.sparse.name": name}
    return info


def test_a_member_with_holes_is_refused(small, tmp_path):
    members = {"a.txt": holes("a.txt"), "en/qa1_train.txt": holes("en/qa1_train.txt")}
    (tmp_path / "a.tar").write_bytes(tar(members.items()))
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert {(info.issparse(), info.size) for info in archive} == {(True, 2**40)}
    assert "has holes" in refused(text, tmp_path, "a.tar")
    assert "has holes" in refused(prepare, tmp_path / "a.tar", tmp_path / "data")


def test_many_links_to_one_large_member_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(archives, "FLOOR", 2_000_000)
    members = [("tasks/Own/large.xml", b"x" * 400_000)]
    for number in range(100):
        link = tarfile.TarInfo(f"tasks/Own/{number}.xml")
        link.type, link.linkname = tarfile.LNKTYPE, "tasks/Own/large.xml"
        members.append(("", link))
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar(members)))
    assert len(tar(members)) < 500_000
    assert "unpacks to far more" in refused(environments.read_mazes, tmp_path / "a.tar.gz", "Own")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    (tmp_path / "en").mkdir()
    os.mkfifo(tmp_path / "en" / "qa1_train.txt")
    assert "is no file" in refused(prepare, tmp_path / "en", tmp_path / "data")
