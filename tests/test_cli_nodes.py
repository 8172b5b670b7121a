"""What the command line reads: everything that a file names, or an error."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.cli import node_files as read
from nareg.errors import InputError


@pytest.mark.parametrize(
    "text",
    [
        "u,v\n3,5\n7,9\n",
        "3,5\n7,9\n",
        "\ufeff3,5\n7,9\n",
        "\ufeffu,v\r\n3,5\r\n7,9",
        '"3","5"\n"7","9"\n',
        "first node, second\n\n3, 5\n 7 ,9\n\n",
    ],
)
def test_every_pair_of_a_file_is_read(text, tmp_path):
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8", newline="")
    np.testing.assert_array_equal(read.pairs(str(tmp_path / "pairs.csv")), [[3, 5], [7, 9]])
    with pytest.raises(InputError, match="2 values: write one number per line"):
        read.numbers(str(tmp_path / "pairs.csv"))


def test_lists_on_the_command_line():
    np.testing.assert_array_equal(read.pairs("3-5,7-9"), [[3, 5], [7, 9]])
    np.testing.assert_array_equal(read.numbers("3,5"), [3, 5])
    np.testing.assert_array_equal(read.numbers("-1, 3"), [-1, 3])


def test_a_list_is_not_a_file_that_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "17").write_text("5\n")
    (tmp_path / "3-5").write_text("7,9\n")
    np.testing.assert_array_equal(read.numbers("17"), [17])
    np.testing.assert_array_equal(read.numbers("./17"), [5])
    np.testing.assert_array_equal(read.pairs("3-5"), [[3, 5]])
    for text in ("1_0", "\u0663"):
        with pytest.raises(InputError, match="neither a file nor a list of numbers"):
            read.numbers(text)
        (tmp_path / "x.csv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="is not a whole number"):
            read.numbers("x.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3.0\n4\n", "line 1: '3.0' is not a whole number"),
        ("node 1\n4\n", "line 1: 'node 1' is not a whole number"),
        ("\n\nnode\n\nx\n", "line 5: 'x' is not a whole number"),
        ("node\n", "is empty"),
        ("", "is empty"),
        ("9" * 30, "line 1: 9+ is too large"),
    ],
)
def test_no_line_is_passed_over(text, words, tmp_path):
    (tmp_path / "nodes.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read.numbers(str(tmp_path / "nodes.csv"))


def test_labels_of_a_spreadsheet(tmp_path):
    (tmp_path / "labels.csv").write_text("node,label,train,note\n1, 2, 1,x\n0,,0,\n2,1,,\n", encoding="utf-8-sig")
    y, train = read.labels(tmp_path / "labels.csv", 4)
    np.testing.assert_array_equal(y, [-1, 2, 1, -1])
    np.testing.assert_array_equal(train, [False, True, False, False])
    for rows, words in (
        ("1,2,yes\n", "line 2: train is 'yes': write 0 or 1"),
        ("1,2,1\n0,1\n", "line 3: 2 cells, but the header has 3: correct the line"),
        ("1,-7,1\n", "line 2: label -7 is negative: number classes from 0"),
        ('1,2,"1\n0,1,1\n2,1,1\n', "cannot be read"),
    ):
        (tmp_path / "labels.csv").write_text(f"node,label,train\n{rows}")
        with pytest.raises(InputError, match=words):
            read.labels(tmp_path / "labels.csv", 4)


def test_numbers_of_any_length_are_refused_in_a_sentence(tmp_path):
    """Python converts no text of more than 4,300 digits."""
    (tmp_path / "nodes.csv").write_text("1" * 5000 + "\n")
    with pytest.raises(InputError, match="line 1: a whole number of 5000 digits is too large"):
        read.numbers(str(tmp_path / "nodes.csv"))
    with pytest.raises(InputError, match="a whole number of 5000 digits is too large"):
        read.numbers("7," + "1" * 5000)
    (tmp_path / "labels.csv").write_text(f"node,label,train\n0,{'1' * 5000},1\n")
    with pytest.raises(InputError, match="line 2: a whole number of 5000 digits is too large"):
        read.labels(tmp_path / "labels.csv", 1)


@pytest.mark.parametrize("column", ["node", "label", "train"])
def test_a_column_that_is_named_twice_is_refused(column, tmp_path):
    (tmp_path / "labels.csv").write_text(f"node,label,train,{column}\n0,1,1,0\n")
    with pytest.raises(InputError, match=f"the first line names the column {column} twice"):
        read.labels(tmp_path / "labels.csv", 1)
    (tmp_path / "labels.csv").write_text("node,label,train,note,note\n0,1,1,a,b\n")  # others may be
    assert read.labels(tmp_path / "labels.csv", 1)[1].tolist() == [True]
