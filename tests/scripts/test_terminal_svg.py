"""The small terminal behind the pictures: what a program writes ends up where a terminal would show it."""
import pathlib
import sys
import xml.etree.ElementTree

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import terminal_svg  # noqa: E402


def rows(text, columns=10, height=3):
    screen = terminal_svg.Screen(columns, height)
    screen.feed(text)
    return ["".join(cell[0] for cell in line).rstrip() for line in screen.lines]


@pytest.mark.parametrize("text, expected", [
    ("ab\r\ncd", ["ab", "cd", ""]),
    ("abc\rX", ["Xbc", "", ""]),
    ("abc\b\bX", ["aXc", "", ""]),
    ("abc\r\x1b[KX", ["X", "", ""]),
    ("one\r\ntwo\x1b[A\r\x1b[2Knew", ["new", "two", ""]),
    ("one\r\ntwo\x1b[H\x1b[J", ["", "", ""]),
    ("a\tb", ["a       b", "", ""]),
    ("0123456789abc", ["0123456789", "abc", ""]),
    ("1\r\n2\r\n3\r\n4", ["2", "3", "4"]),
    ("\x1b[?25la\x1b]0;title\x07b", ["ab", "", ""]),
    ("\x1b[2;4HX", ["", "   X", ""]),
])
def test_text_and_movement(text, expected):
    assert rows(text) == expected


def test_an_escape_that_comes_in_pieces_is_one():
    screen = terminal_svg.Screen(10, 1)
    for piece in "a\x1b", "[3", "1mb":
        screen.feed(piece)
    assert [cell[0] for cell in screen.lines[0]] == ["a", "b"]
    assert screen.lines[0][1][1][0] == terminal_svg.COLOURS[1]


def test_colours_end_with_a_reset():
    screen = terminal_svg.Screen(10, 1)
    screen.feed("\x1b[1;32ma\x1b[0mb\x1b[38;5;196mc")
    styles = [cell[1] for cell in screen.lines[0]]
    assert styles[0][:3] == (terminal_svg.COLOURS[2], None, True)
    assert styles[1] == terminal_svg.Screen.PLAIN
    assert styles[2][0] == "#ff0000"


def test_a_picture_is_xml_whatever_the_text():
    screen = terminal_svg.Screen(20, 2)
    screen.feed('<b> & "q" \x01\x1b[7minverse\x1b[0m')
    text = "".join(xml.etree.ElementTree.fromstring(terminal_svg.still(screen, "<title>")).itertext())
    assert '<b> & "q"' in text and "inverse" in text


def test_the_last_frame_of_a_recording_is_seen_without_animation():
    screen = terminal_svg.Screen(10, 1)
    screen.feed("first")
    first = screen.cells()
    screen.feed("\rlast ")
    svg = terminal_svg.moving("a scene", [("user", 10, 1, [(0.0, first), (1.0, screen.cells())])])
    assert ".f0_0{visibility:hidden" in svg and ".f0_1{visibility:visible" in svg
    xml.etree.ElementTree.fromstring(svg)
