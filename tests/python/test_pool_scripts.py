# ctest: timeout 600
"""Scripts without a main guard, where cloudpickle is not installed: a worker runs the script as far as the line that makes the
pool, and nothing of what stands after it."""
import os
import subprocess
import sys

import pytest

LONG = 200  # seconds, that no test takes unless something is wrong
WITHOUT_CLOUDPICKLE = "import sys; sys.modules['cloudpickle'] = None\n"


def said_by(folder, text):
    """What a script prints; it must end well."""
    path = folder / "program.py"
    path.write_text(WITHOUT_CLOUDPICKLE + text)
    program = subprocess.run([sys.executable, path], cwd=folder, stdout=subprocess.PIPE, text=True, timeout=LONG)
    assert program.returncode == 0
    return program.stdout.splitlines()


BEGIN = """
import contextlib, os, shutil, tholepin
def work(x): return sorted(os.listdir("scratch"))
def ended(): open("ended", "a").write("once\\n")
os.makedirs("scratch", exist_ok=True)
open("scratch/data", "w").close()
"""
USES = 'print(*pool.map(work, range(4), chunksize=1))\n'

WAYS = {
    "finally": f"""
try:
    pool = tholepin.Pool(gpus=2, maxtasksperchild=1)
    {USES}
finally:
    shutil.rmtree("scratch"); ended()
""",
    "with and finally in a function": f"""
def main():
    try:
        with tholepin.Pool(gpus=2) as pool:
            {USES}
    finally:
        shutil.rmtree("scratch"); ended()
main()
""",
    "an exit stack": f"""
with contextlib.ExitStack() as stack:
    stack.callback(ended)
    stack.callback(shutil.rmtree, "scratch")
    pool = stack.enter_context(tholepin.Pool(gpus=2))
    {USES}
""",
    "a context manager that is a generator": f"""
@contextlib.contextmanager
def scratch():
    try: yield
    finally: shutil.rmtree("scratch"); ended()
with scratch(), tholepin.Pool(gpus=2) as pool:
    {USES}
""",
    "a bare except": f"""
try:
    with tholepin.Pool(gpus=2) as pool:
        {USES}
except:
    pass
shutil.rmtree("scratch"); ended()
""",
    "an executor": f"""
try:
    with tholepin.Executor(gpus=2) as pool:
        {USES}
finally:
    shutil.rmtree("scratch"); ended()
""",
    "a pool that ends by itself": f"""
try:
    pool = tholepin.Pool(gpus=2)
    {USES}
    pool.close(); pool.join()
finally:
    shutil.rmtree("scratch"); ended()
""",
    "a coroutine": f"""
import asyncio
async def main():
    try:
        async with tholepin.Pool.aopen(gpus=2) as pool:
            {USES}
    finally:
        shutil.rmtree("scratch"); ended()
asyncio.run(main())
""",
    "a submission": f"""
try:
    job = tholepin.submit(["true"], gpus=0, hold=True)
    with tholepin.Pool(gpus=2) as pool:
        {USES}
finally:
    shutil.rmtree("scratch"); ended()
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_stands_after_the_pool_runs_once(way, tmp_path):
    assert said_by(tmp_path, BEGIN + WAYS[way]) == ["['data'] ['data'] ['data'] ['data']"]
    assert (tmp_path / "ended").read_text() == "once\n"


def test_a_process_of_a_group_is_no_further_in_the_script_either(tmp_path):
    text = """
import os, sys, tholepin
def work(status):
    open(f"ran-{status}", "w").close()
    sys.exit(status)
try:
    one, two = (tholepin.Process(work, args=(status,)) for status in (0, 7))
    for process in (one, two): process.start()
    for process in (one, two): process.join()
    print(one.returncode, two.returncode)
finally:
    open("ended", "a").write("once\\n")
"""
    assert said_by(tmp_path, text) == ["0 7"]
    assert (tmp_path / "ended").read_text() == "once\n"
    assert (tmp_path / "ran-7").exists()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_nor_are_the_children_of_a_worker(method, tmp_path):
    text = f"""
import multiprocessing, tholepin
def double(x): return 2 * x
def doubled(x):
    with multiprocessing.get_context("{method}").Pool(1) as children:
        return children.map(double, [x])
def with_a_process(x):
    child = multiprocessing.get_context("{method}").Process(target=double, args=(x,))
    child.start(); child.join()
    return child.exitcode
try:
    with tholepin.Pool(2) as pool:
        print(pool.map(doubled, [1, 2]), pool.apply(with_a_process, (1,)))
finally:
    open("ended", "a").write("once\\n")
"""
    assert said_by(tmp_path, text) == ["[[2], [4]] 0"]
    assert (tmp_path / "ended").read_text() == "once\n"


def test_a_task_of_a_pool_made_in_a_coroutine_may_run_coroutines(tmp_path):
    text = """
import asyncio, tholepin
async def doubled(x): return 2 * x
def work(x): return asyncio.run(doubled(x))
async def main():
    async with tholepin.Pool.aopen(gpus=2) as pool:
        print(pool.map(work, [1, 2]))
asyncio.run(main())
"""
    assert said_by(tmp_path, text) == ["[2, 4]"]


CLAIMS = {
    "of the process": "claim = tholepin.claim(4)",
    "of fewer GPUs than there are": "claim = tholepin.claim(2)",
    "of a block": "with tholepin.claim(2) as claim: print(len(claim.indices), claim.released)",
    "of a coroutine": """
import asyncio
async def made():
    async with tholepin.aclaim(2) as claim: print(len(claim.indices), claim.released)
asyncio.run(made())""",
}


@pytest.mark.parametrize("guard", ["", 'if __name__ == "__main__":'])
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_above_the_functions_claims_once(claim, guard, tmp_path):
    body = """
print(tholepin.Pool(2).map(square, [1, 2, 3]))
print(tholepin.on_gpu(1)(square)(4))
"""
    indented = "\n".join("    " + line for line in body.splitlines() if line) if guard else body
    text = f"""
import os, tholepin
{CLAIMS[claim]}
def square(x): return x * x
{guard}
{indented}
"""
    said = said_by(tmp_path, text)
    assert said[-2:] == ["[1, 4, 9]", "16"]
    assert "2 False" in said or "with" not in CLAIMS[claim]


def test_in_a_worker_such_a_claim_is_the_gpus_that_the_worker_has(tmp_path):
    text = """
import os, tholepin
claim = tholepin.claim(3)
def mine(_): return claim.indices, claim.env["CUDA_VISIBLE_DEVICES"] == os.environ["CUDA_VISIBLE_DEVICES"]
with tholepin.Pool(gpus=3) as pool:
    print({(*gpus, same) for gpus, same in pool.map(mine, range(60), chunksize=1)} <= {(0, True), (1, True), (2, True)})
print(len(claim.indices))
"""
    assert said_by(tmp_path, text) == ["True", "3"]


def test_a_function_below_the_pool_is_named_with_the_line(tmp_path):
    text = """
import tholepin
pool = tholepin.Pool(1)
def late(x): return x
try: pool.map(late, [1])
except AttributeError as problem: print(problem)
"""
    [said] = said_by(tmp_path, text)
    assert "'late'" in said and "program.py:4" in said and "put it above" in said


def test_what_the_script_raises_above_its_pool_is_the_first_tasks_failure(tmp_path):
    text = """
import tholepin
def work(x): return x
if __name__ != "__main__": raise ValueError("only once")
with tholepin.Pool(1, retries=0) as pool:
    try: pool.apply(work, (1,))
    except ValueError as problem: print(problem)
"""
    assert said_by(tmp_path, text) == ["only once"]
