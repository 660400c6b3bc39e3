# ctest: timeout 600
"""What a wrong argument says: which argument of the call it is, in Python's words, and as a ValueError."""
import collections
import re

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
    (lambda: tholepin.claim(on={"0": 1}), "on: expected GPUs by their numbers or names"),
    (lambda: tholepin.claim(on="3-1"), "on: expected a range such as 0-3, got '3-1'"),
    (lambda: tholepin.claim(on="nope"), "on: no such GPU: nope"),
    (lambda: tholepin.claim(not_on=["nope"]), "not_on: no such GPU: nope"),
    (lambda: tholepin.claim(order=["nope"]), "order: no such GPU: nope"),
    (lambda: tholepin.claim(quiet="x"), "quiet: expected True or False, got 'x'"),
    (lambda: tholepin.bind("0", 1), "local_rank: expected a whole number, got '0'"),
    (lambda: tholepin.bind(-1, 2), "local_rank: expected 0 or more, got -1"),
    (lambda: tholepin.bind(0, 1.5), "nproc_per_node: expected a whole number"),
    (lambda: tholepin.plan(machine="nosuch"), "nosuch"),
    (lambda: tholepin.topo("png"), "'png'"),
    (lambda: tholepin.Policy(gpu_affinity=[1.5]), "gpu_affinity: 1.5"),
    (lambda: tholepin.submit("x y"), "a list of words"),
    (lambda: tholepin.submit(["no-such-program-at-all"]), "no-such-program-at-all"),
    (lambda: tholepin.submit(["true"], gpu=2),
     'there is no argument "gpu"\n  GPU 2 by its number: on=2; any one that is free: gpus=1'),
    (lambda: tholepin.submit(["true"], cores=2), 'there is no argument "cores"\n  see: help(tholepin.submit)'),
    (lambda: tholepin.submit(["true"], gpus="two"), 'gpus: expected a number, got "two"'),
    (lambda: tholepin.submit(["true"], gpus=2, on=[0]), "2 GPUs asked for; on= names 1"),
    (lambda: tholepin.submit(["true"], per_gpu=0), "per_gpu: expected a number from 1"),
    (lambda: tholepin.submit(["true"], hold="x"), 'hold: expected True or False, got "x"'),
    (lambda: tholepin.submit(["true"], share=True), 'share=True, memory="8G"'),
    (lambda: tholepin.submit(["true"], after="12:what"), 'after="12:what": a condition is'),
    (lambda: tholepin.submit(["true"], bind="x"), 'bind: "x"'),
    (lambda: tholepin.submit([]), "command: expected a list of words"),
    (lambda: tholepin.submit(3), "command: expected a list, got 3"),
    (lambda: tholepin.jobs(state="x"), 'state: "x"'),
    (lambda: tholepin.wait(1, timeout="x"), "timeout: expected seconds"),
    (lambda: tholepin.why(gpus="x"), 'gpus: expected a number, got "x"'),
    (lambda: tholepin.bind(0), "local_rank=0 of how many ranks on this machine?\n  nproc_per_node=N"),
    (lambda: tholepin.bind(9, 8), "local_rank=9 of 8 ranks"),
    (lambda: tholepin.bind(nproc_per_node=2), "local_rank=R, nproc_per_node=N; "),
    (lambda: tholepin.bind(0, 1, gpus_per_rank=0), "gpus_per_rank: expected 1 or more"),
    (lambda: tholepin.bind(how="x"), 'how.mode: "x" is not one of'),
    (lambda: tholepin.bind(how={"x": 1}), 'how: no such field "x"'),
    (lambda: tholepin.bind(how=3), "how: expected a mode"),
    (lambda: tholepin.plan(ranks="8"), "ranks: expected a whole number, 0 or more; None when it is unknown"),
    (lambda: tholepin.plan(on=3.5), "on: expected GPUs by their numbers or names, got 3.5"),
    (lambda: tholepin.plan(on="3-1"), "on: expected a range such as 0-3"),
    (lambda: tholepin.plan(busy=["x"]), "busy[0]: expected a whole number"),
    (lambda: tholepin.submit(["true"], time=float("inf")), "time: expected a time that ends"),
    (lambda: tholepin.why("--help"), "no such GPU"),
    (lambda: tholepin.plan(bind="x"), 'bind.mode: "x" is not one of'),
    (lambda: tholepin.plan(bind=3), "bind: expected a mode"),
    (lambda: tholepin.submit(["true"], time="8"), '"8s", "8m" or "8h"; a number is seconds'),
    (lambda: tholepin.on_gpu(len), "how many GPUs?"),
])
def test_a_wrong_argument_is_named_and_is_a_value_error(call, says):
    with pytest.raises(ValueError) as caught:
        call()
    assert isinstance(caught.value, tholepin.Error) and says in str(caught.value)
    text = re.sub(r"thole [^;\n]*|: --help", "", str(caught.value))     # what is to be typed, and what was said
    assert "--" not in text and not text.startswith("request."), text


@pytest.mark.parametrize("said, says", [
    (dict(gpus=2, on="0"), "2 GPUs asked for; on= names 1"),
    (dict(gpus=3, on="0-1"), "3 GPUs asked for; on= names 2"),
    (dict(gpus=2, on=[0], not_on=[0]), "on= names 1"),
    (dict(gpus=10_000, not_on=[0]), "10000 GPUs asked for"),
])
def test_what_can_never_be_is_said_in_the_arguments_words(said, says):
    with pytest.raises(tholepin.NeverPossible) as caught:
        tholepin.claim(**said)
    assert says in str(caught.value) and "--" not in str(caught.value)


@pytest.mark.parametrize("made", [tholepin.Pool, tholepin.Executor])
@pytest.mark.parametrize("said, says", [
    (dict(policy="x"), "policy: expected a Policy"), (dict(policy=5), "policy: expected a Policy"),
    (dict(policy=[tholepin.Policy(), None]), "policy: expected a Policy"),
    (dict(initargs=5), "initargs: expected a list, got 5"),
    (dict(initializer=5), "initializer: expected a function, got 5"),
])
def test_a_pool_names_a_wrong_argument(made, said, says):
    with pytest.raises(TypeError) as caught:                  # an Error of ours, too
        made(1, **said) if "policy" not in said else made(**said)
    assert says in str(caught.value)
    assert isinstance(caught.value, tholepin.Error) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("made", [
    lambda policy: tholepin.ProcessGroup(policy=policy), lambda policy: tholepin.Process(len, policy=policy),
    lambda policy: tholepin.ProcessTemplate(len, policy=policy),
])
@pytest.mark.parametrize("policy", [3, "x", [tholepin.Policy()]])
def test_what_takes_one_policy_takes_nothing_else(made, policy):
    with pytest.raises(TypeError, match="policy: expected a Policy, got ") as caught:
        made(policy)
    assert isinstance(caught.value, tholepin.Error)


def test_a_range_of_gpus_is_what_the_command_line_takes():
    with tholepin.claim(2, on="0-1") as claim:
        assert len(claim.gpus) == 2


@pytest.mark.parametrize("on", ["0-1", "0,1", [0, 1], range(2), ["0", "1"]])
def test_a_plan_takes_gpus_as_a_claim_does(on):
    assert tholepin.plan(on=on).gpus == [0, 1]
    assert tholepin.plan(busy="0-2", on=3).gpus == [3]


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
