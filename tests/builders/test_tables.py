"""Finding, downloading, checking and reading the source tables. The archive is a real server on the loopback."""

import dataclasses
import gzip
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from builders.domain import Source
from builders.domains import DOMAINS, wildfire
from builders.errors import UserError
from builders.tables import cache_folder, read_arff, read_csv, table_files

TABLE = b"a,b\n1,2\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(3000))
SHA256 = hashlib.sha256(TABLE).hexdigest()


def source(**changed: object) -> Source:
    """A source whose table is TABLE."""
    base = {"id": "toy:1", "title": "Toy", "member": "table.csv", "sha256": SHA256, "copies": {"table.csv": SHA256}}
    return dataclasses.replace(wildfire.DOMAIN.source, **base | changed)


def zipped(**members: bytes) -> bytes:
    """A zip archive; ``__`` in a name stands for its last dot."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return file.getvalue()


def one_line(error: pytest.ExceptionInfo[UserError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@dataclass
class Archive:
    """A server of one file, ``<url>/x.zip``, that can break off in the middle."""

    url: str = ""
    body: bytes = b""
    sent: int | None = None
    chunked: bool = False
    requests: list[str] = field(default_factory=list)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, archive: Archive, *arguments: object) -> None:
        self.archive = archive
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        archive = self.archive
        archive.requests.append(self.path)
        self.close_connection = True
        if self.path != "/x.zip":
            self.send_error(404)
            return
        body = archive.body[: archive.sent]
        self.send_response(200)
        if archive.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%b" % (len(archive.body), body))
        else:
            self.send_header("Content-Length", str(len(archive.body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """The server, with an empty cache for what is downloaded from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    served = Archive(body=zipped(table__csv=TABLE))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, served))
    served.url = f"http://127.0.0.1:{server.server_port}/x.zip"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def cached() -> list[str]:
    """What lies in the cache, hidden files too."""
    return [path.name for path in (cache_folder() / "tables").rglob("*")]


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_a_table_is_found_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(TABLE) if name.endswith("gz") else TABLE)
    assert table_files(source(), tmp_path) == [TABLE]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        table_files(source(copies={"copy.csv": SHA256}), tmp_path)
    assert one_line(error) == f"{tmp_path}: no table.csv and no copy.csv for toy:1 (Toy), gzipped or not"


def test_every_domains_missing_table_is_named(tmp_path: Path) -> None:
    for domain in DOMAINS:
        with pytest.raises(UserError, match=domain.source.id) as error:
            table_files(domain.source, tmp_path)
        assert next(iter(domain.source.copies)) in one_line(error)


def test_one_missing_piece_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_bytes(TABLE)
    with pytest.raises(UserError, match=r"no one-and-two\.csv and no two\.csv"):
        table_files(source(member="one-and-two.csv", copies={"one.csv": SHA256, "two.csv": SHA256}), tmp_path)


def corrupted_gzips() -> Iterator[bytes]:
    whole = gzip.compress(TABLE, mtime=0)
    yield whole[: len(whole) // 2]
    yield whole[:100] + bytes([whole[100] ^ 0xFF]) + whole[101:]
    yield whole[:-8] + b"\0" * 8
    yield whole[:20] + b"\xff" * 400
    yield b"<html>not a gzip file</html>"
    yield b""


@pytest.mark.parametrize("data", corrupted_gzips())
def test_a_corrupted_gzip_file_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "table.csv.gz").write_bytes(data)
    with pytest.raises(UserError) as error:
        table_files(source(), tmp_path)
    assert str(tmp_path / "table.csv") in one_line(error)


@pytest.mark.parametrize("name", ["table.csv", "copy.csv"])
def test_a_wrong_checksum_names_the_file_and_both_digests(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(TABLE + b"9,9\n")
    with pytest.raises(UserError) as error:
        table_files(source(copies={"copy.csv": SHA256}), tmp_path)
    found = hashlib.sha256(TABLE + b"9,9\n").hexdigest()
    assert one_line(error).startswith(f"{tmp_path / name}: sha256 is {found}, expected {SHA256}")


def test_an_original_without_a_known_checksum_is_used_and_its_digest_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table.csv").write_bytes(TABLE)
    assert table_files(source(sha256=None, copies={}), tmp_path) == [TABLE]
    assert SHA256 in capsys.readouterr().err


def test_a_downloaded_table_is_cached_and_not_fetched_again(archive: Archive) -> None:
    for _ in range(2):
        assert table_files(source(archive=archive.url), None) == [TABLE]
    assert archive.requests == ["/x.zip"]
    assert cached() == ["toy-1-x.zip"]


def test_a_member_of_a_nested_archive_is_found(archive: Archive) -> None:
    archive.body = zipped(inner__zip=zipped(table__csv=TABLE), other__zip=b"no")
    assert table_files(source(archive=archive.url, member="inner.zip/table.csv"), None) == [TABLE]


def test_a_folder_inside_an_archive_is_part_of_the_members_name(archive: Archive) -> None:
    archive.body = zipped(**{"folder/table.csv": TABLE})
    assert table_files(source(archive=archive.url, member="folder/table.csv"), None) == [TABLE]


def test_a_download_that_is_the_table_itself_needs_no_member(archive: Archive) -> None:
    archive.body = TABLE
    assert table_files(source(archive=archive.url, member=""), None) == [TABLE]


WRONG = {
    "another table": zipped(table__csv=TABLE + b"1,1\n"),
    "no such member": zipped(other__csv=TABLE),
    "a web page": b"<html>moved</html>",
    "nothing": b"",
    "a damaged archive": (lambda data: data[:60] + b"\xff" * 300 + data[360:])(zipped(table__csv=TABLE)),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_wrong_content_is_refused_and_leaves_the_cache(archive: Archive, body: bytes) -> None:
    archive.body = body
    with pytest.raises(UserError) as error:
        table_files(source(archive=archive.url), None)
    assert one_line(error).startswith(f"{archive.url}: not the archive that was expected")
    assert cached() == []
    archive.body = zipped(table__csv=TABLE)
    assert table_files(source(archive=archive.url), None) == [TABLE]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("sent", [0, 1000])
def test_a_dropped_connection_names_the_url_and_leaves_no_file(archive: Archive, sent: int, chunked: bool) -> None:
    archive.sent, archive.chunked = sent, chunked
    with pytest.raises(UserError) as error:
        table_files(source(archive=archive.url), None)
    assert one_line(error).startswith(f"cannot download {archive.url} (")
    assert "--tables" in str(error.value)
    assert cached() == []


def test_a_page_that_is_gone_names_the_url_and_the_status(archive: Archive) -> None:
    gone = archive.url.replace("x.zip", "gone.zip")
    with pytest.raises(UserError) as error:
        table_files(source(archive=gone), None)
    assert one_line(error).startswith(f"cannot download {gone} (")
    assert cached() == []


def test_no_network_names_the_url(archive: Archive) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x.zip"
        with pytest.raises(UserError) as error:
            table_files(source(archive=url), None)
    assert one_line(error).startswith(f"cannot download {url} (") and "refused" in str(error.value)
    assert cached() == []


@pytest.mark.parametrize(
    "data",
    [
        b"a,b c\n1,x\n02,\n",
        b"\xef\xbb\xbfa,b c\r\n1,x\r\n02,\r\n",
        b'"a" , b c \n 1,"x"\n02 , \n',
        b"a,b c\n\n1,x\n\n02,\n",
    ],
)
def test_csv_cells_are_kept_as_text_without_surrounding_blanks(data: bytes) -> None:
    assert read_csv(data) == [{"a": "1", "b c": "x"}, {"a": "02", "b c": ""}]


def test_csv_keeps_what_looks_missing_or_numeric_and_quoted_separators() -> None:
    assert read_csv(b'a;b\nNA;1.50\n"x;y";nan\n', separator=";") == [
        {"a": "NA", "b": "1.50"},
        {"a": "x;y", "b": "nan"},
    ]


def test_csv_without_a_header_takes_the_given_names_and_skips_lines() -> None:
    assert read_csv(b"|comment\n1, ?\n", names=("a", "b"), skip=1) == [{"a": "1", "b": "?"}]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_arff_is_read_by_its_attribute_names(line_end: bytes) -> None:
    lines = [b"@relation toy", b"@attribute 'x y' {1,-1}".replace(b" y", b"_y"), b"@ATTRIBUTE z numeric", b"@data"]
    data = line_end.join([*lines, b"1,0.50", b"-1,?", b""])
    assert read_arff(data) == [{"x_y": "1", "z": "0.50"}, {"x_y": "-1", "z": "?"}]
