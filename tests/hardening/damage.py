"""Ways in which a file may be damaged or crafted, from a generator."""

from __future__ import annotations

import io
import zipfile

import numpy as np

#: Texts that a cell, a number or a word may be replaced by.
WORDS = [
    b"NaN",
    b"inf",
    b"-inf",
    b"1e400",
    b"-1e-400",
    b"99999999999999999999",
    b"-1",
    b"1.5",
    b"true",
    b"",
    b" ",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"'",
    b'"',
    b'""',
    b",",
    b";",
    b"\t",
    b"\r\n",
    b"\r",
    b"\n",
    b"\n\n",
    b"\x00",
    b"\xff",
    b"\xc3\x28",
    b"0x10",
    b"1_000",
    b"\xd9\xa3",
    b"None",
    b"NULL",
    b"#",
    b"9" * 5000,
    b"1.797e308",
    b"[" * 3000,
    b"{" * 3000,
    b"=",
    b"2024-02-30",
    b"0000-00-00",
    b"12/31/1500",
    b"NaT",
    b"9999-12-31",
    b"1677-01-01",
    b"2262-12-31",
    b"24:60:60",
    b"+14:00",
    b"Z",
    b"1E309",
    b"1,5",
    b"\xe2\x88\x925",
    b"\xe2\x80\xa8",
]
#: Sizes in which a header may claim more than is there.
COUNTS = [b"0", b"-1", b"2", b"7", b"1000000", b"9999999999999", b"9223372036854775807", b"18446744073709551616", b"1e9"]


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        if out:
            out[rng.integers(len(out))] = rng.integers(256)
    return bytes(out)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """The file ends early, or begins late."""
    at = int(rng.integers(0, len(data) + 1))
    return data[:at] if rng.random() < 0.8 else data[at:]


def spliced(data: bytes, rng: np.random.Generator) -> bytes:
    """Parts repeated, moved, or left out."""
    a, b = sorted(int(k) for k in rng.integers(0, len(data) + 1, 2))
    return [data[:a] + data[b:], data[:b] + data[a:], data[b:] + data[:a], data + data][int(rng.integers(4))]


def reworded(data: bytes, rng: np.random.Generator) -> bytes:
    """A word in the place of another one, or between."""
    word = WORDS[int(rng.integers(len(WORDS)))]
    edges = [k for k, byte in enumerate(data) if byte in b",;\n\t :\"'[]{}()"] or [0]
    at = edges[int(rng.integers(len(edges)))]
    later = [k for k in edges if k > at]
    end = later[0] if later and rng.random() < 0.7 else at + 1
    return data[: at + 1] + word + data[end:]


def recounted(data: bytes, rng: np.random.Generator) -> bytes:
    """A number of a header, or of the text, replaced by another size."""
    starts = [k for k in range(len(data)) if data[k : k + 1].isdigit() and not data[max(k - 1, 0) : k].isdigit()]
    if not starts:
        return flipped(data, rng)
    at = starts[int(rng.integers(min(len(starts), 40)))]
    end = at
    while data[end : end + 1].isdigit():
        end += 1
    return data[:at] + COUNTS[int(rng.integers(len(COUNTS)))] + data[end:]


def resized(data: bytes, rng: np.random.Generator) -> bytes:
    """A binary count of four or eight bytes replaced by another size."""
    width = int(rng.choice([4, 8]))
    if len(data) < width:
        return data
    at = int(rng.integers(0, len(data) - width + 1))
    value = int(rng.choice([0, 1, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1])) % 2 ** (8 * width)
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def other_lines(data: bytes, rng: np.random.Generator) -> bytes:
    """Other line ends, marks of an encoding, blank lines, a line twice or missing."""
    lines = data.split(b"\n")
    k = int(rng.integers(len(lines)))
    return [
        data.replace(b"\n", b"\r\n"), data.replace(b"\n", b"\r"), b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\n\n"),
        b"\n".join(lines[:k] + lines[k + 1 :]), b"\n".join([*lines[:k], lines[k], *lines[k:]]), b"\n".join(lines[::-1]),
        data.decode("latin-1").encode("utf-16"), data.decode("latin-1").encode("utf-32"),
    ][int(rng.integers(9))]  # fmt: skip


def something_else(data: bytes, rng: np.random.Generator) -> bytes:
    """Nothing, noise, zeros, or a file of another kind."""
    return [
        b"", b"\n", b" ", rng.bytes(200), bytes(500), b"\x89HDF\r\n\x1a\n" + rng.bytes(100), b"PAR1" + rng.bytes(50) + b"PAR1",
        b"PK\x03\x04" + rng.bytes(60), b"\x1f\x8b\x08" + rng.bytes(40), b"SQLite format 3\x00" + rng.bytes(100),
        b"\x93NUMPY\x01\x00" + rng.bytes(80), b"{}", b"[]", b"null", b"<html></html>", b"%PDF-1.7",
    ][int(rng.integers(16))]  # fmt: skip


def rezipped(data: bytes, rng: np.random.Generator) -> bytes:
    """One member of an archive damaged, and the archive made whole again: what checksums do not tell."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # damaged once already, in whichever way
        return flipped(data, rng)
    names = list(members)
    name = names[int(rng.integers(len(names)))]
    choice = int(rng.integers(7))
    if choice == 0:
        del members[name]
    elif choice == 1:
        members[name] = members[names[int(rng.integers(len(names)))]]
    elif choice == 2:
        members[name] = _npy(rng)
    else:
        members[name] = [flipped, recounted, resized, cut][int(rng.integers(4))](members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return out.getvalue()


def _npy(rng: np.random.Generator) -> bytes:
    """A whole array of another type, shape or content."""
    array = [
        np.array(3),
        np.zeros(0),
        np.zeros((0, 3)),
        np.array([np.nan, np.inf]),
        np.array(["a", "b"]),
        np.array([b"csr"]),
        np.arange(5) - 2,
        np.full((5, 5), 1e308),
        np.array([2**63], np.uint64),
        np.zeros((2, 2, 2)),
        np.array([1 + 2j]),
        np.array(["NaT"], "M8[s]"),
        np.ones(5, bool),
        np.full(5, 2**62),
        np.zeros(5, ">f8"),
        np.asfortranarray(np.ones((5, 4))),
        np.array([1.5] * 5, np.float16),
        np.array("{}"),
        np.array("[" * 3000),
        np.zeros(3, "V8"),
        np.array([("x", 1)], dtype=[("a", "U1"), ("b", "i4")]),
    ][int(rng.integers(21))]
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


DAMAGES = (flipped, cut, spliced, reworded, recounted, resized, other_lines, something_else, rezipped)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """One way or two."""
    for _ in range(1 + int(rng.random() < 0.3)):
        data = DAMAGES[int(rng.integers(len(DAMAGES)))](data, rng)
    return data
