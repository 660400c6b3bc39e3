"""The closing report of scripts/test, on a real ctest run of one small project that holds every kind of ending."""
import pathlib
import subprocess
import sys
import textwrap

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "summarize-tests"
PROJECT = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.22)
        project(endings NONE)
        enable_testing()
        add_test(NAME good COMMAND true)
        add_test(NAME cases COMMAND "{python}" -m pytest -q -rs -p no:cacheprovider {dir}/test_cases.py)
        add_test(NAME gtest COMMAND cat {dir}/gtest.txt)
        set_tests_properties(gtest PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
        """,
    "test_cases.py": """
        import pytest
        @pytest.mark.skip(reason="no second GPU")
        def test_skipped(): pass
        @pytest.mark.parametrize("n", range(2))
        def test_skipped_by_call(n): pytest.skip("no second user")
        def test_good(): pass
        """,
    "gtest.txt": """
        [ RUN      ] Users.Two
        /src/users_test.cpp:4: Skipped
        two users needed:
        run as root
        [  SKIPPED ] Users.Two (0 ms)
        """,
}
MORE = {
    "a failing test": ("add_test(NAME bad COMMAND false)", "2 passed, 1 failed, 4 skipped"),
    "a crash": ('add_test(NAME bad COMMAND sh -c "kill -SEGV $$")', "2 passed, 1 failed, 4 skipped"),
    "a program that was never built": ("add_test(NAME bad COMMAND nonesuch)", "2 passed, 1 failed, 4 skipped"),
    "a pytest file that cannot be read": (
        'add_test(NAME bad COMMAND "{python}" -m pytest -q -p no:cacheprovider {dir}/broken.py)',
        "2 passed, 1 failed, 4 skipped",
    ),
    "a skip without a reason": (
        "add_test(NAME bad COMMAND false)\nset_tests_properties(bad PROPERTIES SKIP_RETURN_CODE 1)",
        "2 passed, 0 failed, 5 skipped",
    ),
}


def report(tmp_path, more=""):
    for name, text in PROJECT.items():
        text = textwrap.dedent(text).strip() + "\n" + (more + "\n" if name == "CMakeLists.txt" else "")
        (tmp_path / name).write_text(text.replace("{dir}", str(tmp_path)).replace("{python}", sys.executable))
    (tmp_path / "broken.py").write_text("def test_x(:\n")
    build = tmp_path / "build"
    subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", build], check=True, capture_output=True)
    subprocess.run(["ctest", "--output-junit", "junit.xml"], cwd=build, capture_output=True)
    return subprocess.run(
        [SCRIPT, build / "junit.xml", build / "Testing/Temporary/LastTest.log"], capture_output=True, text=True
    )


def test_each_skip_is_listed_with_its_reason_and_cases_are_counted(tmp_path):
    end = report(tmp_path)
    assert end.stdout.splitlines()[-1] == "2 passed, 0 failed, 4 skipped"
    assert end.returncode == 0
    assert "  no second GPU\n    cases: test_cases.py\n" in end.stdout
    assert "  no second user\n    cases: test_cases.py (2)\n" in end.stdout
    assert "  two users needed: run as root\n    gtest\n" in end.stdout


@pytest.mark.parametrize("kind", MORE)
def test_what_is_wrong_is_counted_and_gives_a_bad_status(tmp_path, kind):
    more, closing = MORE[kind]
    end = report(tmp_path, more)
    assert end.stdout.splitlines()[-1] == closing
    assert end.returncode == 1
    assert ("NO REASON GIVEN" in end.stdout) == (kind == "a skip without a reason")


def test_what_failed_is_told_once_more_at_the_end(tmp_path):
    (tmp_path / "test_bad.py").write_text("def test_sum():\n    assert [1 + 1] == [3], 'a sum'\n")
    end = report(tmp_path, 'add_test(NAME bad COMMAND "{python}" -m pytest -q -p no:cacheprovider {dir}/test_bad.py)\n'
                           'add_test(NAME mute COMMAND false)\n'
                           'add_test(NAME long COMMAND sh -c "seq 1000; exit 1")')
    told = end.stdout[end.stdout.index("\nFailed, and why:\n"):]
    assert "\n  bad\n    ___" in told and "\n    E       AssertionError: a sum\n" in told, told
    assert "\n  mute\n  long\n    1\n    2\n" in told and "\n    40\n    ...\n" in told, told
    assert end.stdout.splitlines()[-1] == "2 passed, 3 failed, 4 skipped"
