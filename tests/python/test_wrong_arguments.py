# ctest: timeout 600
"""What a wrong argument says: which argument of the call it is, in Python's words, and as a ValueError."""
import collections

import pytest

import tholepin


@pytest.mark.parametrize("call, says", [
    (lambda: tholepin.claim(2**70), "gpus: expected at most"),
    (lambda: tholepin.claim(share=True), "memory: a sharer must say"),
    (lambda: tholepin.claim(on="\udcff"), r"on: expected a text of whole characters, got '\udcff'"),
    (lambda: tholepin.claim(model="\udcff"), "model: expected a text of whole characters"),
    (lambda: tholepin.claim(on=b"0"), "on: expected GPUs by their numbers or names, got b'0'"),
    (lambda: tholepin.claim(cancel=-5), "cancel: expected a descriptor"),
    (lambda: tholepin.claim(on_wait="x"), "on_wait: expected a function"),
    (lambda: tholepin.bind("0", 1), "local_rank: expected a whole number, got '0'"),
    (lambda: tholepin.bind(-1, 2), "local_rank: expected 0 or more, got -1"),
    (lambda: tholepin.bind(0, 1.5), "nproc_per_node: expected a whole number"),
    (lambda: tholepin.plan(machine="nosuch"), "nosuch"),
    (lambda: tholepin.topo("png"), "'png'"),
    (lambda: tholepin.Policy(gpu_affinity=[1.5]), "gpu_affinity: 1.5"),
    (lambda: tholepin.submit("x y"), "a list of words"),
    (lambda: tholepin.submit(["no-such-program-at-all"]), "no-such-program-at-all"),
    (lambda: tholepin.submit(["true"], gpu=2), "GPU 2 by its number: --on 2"),
    (lambda: tholepin.submit(["true"], time="8"), '"8s", "8m" or "8h"; a number is seconds'),
    (lambda: tholepin.on_gpu(len), "how many GPUs?"),
])
def test_a_wrong_argument_is_named_and_is_a_value_error(call, says):
    with pytest.raises(ValueError) as caught:
        call()
    assert isinstance(caught.value, tholepin.Error) and says in str(caught.value)


def test_a_number_is_seconds():
    job = tholepin.submit(["true"], gpus=0, time=8, hold=True)
    assert tholepin.jobs(job)[0]["time_s"] == 8


def test_a_template_is_one_when_it_is_given():
    with pytest.raises(TypeError, match="template"):
        tholepin.ProcessGroup().add_process(1, None)


class Failure(Exception):
    """An own exception."""


@pytest.mark.parametrize("kind, argument", [
    (int, "3"), (dict, [("a", 3)]), (collections.Counter, "aab"), (tholepin.Error, "why"), (Failure, "why"),
])
def test_a_class_is_a_function_for_on_gpu(kind, argument):
    made = tholepin.on_gpu(1)(kind)(argument)
    assert type(made) is kind and repr(made) == repr(kind(argument))
