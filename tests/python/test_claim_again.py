"""Claims of what the process has already, each to be shown otherwise, as tasks make them in a process that stays."""
import os

import pytest
from claim_tools import claims

import tholepin
from tholepin import _holding

pytestmark = pytest.mark.usefixtures("all_claims_end")


def in_two_words():
    tholepin.claim(1)
    tholepin.claim(1, ids="uuid")


def in_its_own_order():
    tholepin.claim(1)
    os.environ["CUDA_DEVICE_ORDER"] = "FASTEST_FIRST"


def by_uuid():
    os.environ["CUDA_VISIBLE_DEVICES"] = tholepin.claim(1).uuids[0]


def with_a_blank():
    os.environ["CUDA_VISIBLE_DEVICES"] = f"{tholepin.claim(1).indices[0]} "


def with_what_a_claim_removes():
    tholepin.claim(1)
    os.environ["GPU_DEVICE_ORDINAL"] = "0"


SHARE = {"share": True, "memory": "10G"}


def a_share():
    tholepin.claim(1, **SHARE)


def a_share_in_two_words():
    tholepin.claim(1, **SHARE)
    tholepin.claim(1, **SHARE, ids="uuid")


def a_share_by_uuid():
    os.environ["CUDA_VISIBLE_DEVICES"] = tholepin.claim(1, **SHARE).uuids[0]


def a_share_and_all_of_it():
    tholepin.claim(1, **SHARE)
    tholepin.claim(1)


SHARES = [a_share, a_share_in_two_words, a_share_by_uuid, a_share_and_all_of_it]
WHOLE = [in_two_words, in_its_own_order, by_uuid, with_a_blank, with_what_a_claim_removes]


@pytest.mark.parametrize("task", WHOLE + SHARES)
def test_what_the_process_has_already_costs_nothing_however_it_is_shown(task, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # so that it is as before after the test
    descriptors, holdings = [], []
    for _ in range(30):
        task()
        descriptors.append(len(os.listdir("/proc/self/fd")))
        holdings.append(len(_holding.held))
    assert max(descriptors[8:]) <= max(descriptors[:8]), descriptors
    assert max(holdings[8:]) <= max(holdings[:8]), holdings
    assert len(claims()) == 1
    os.environ.pop("GPU_DEVICE_ORDINAL", None)
    tholepin.release()
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # a task's own, which is left to it
    assert claims() == [] and _holding.held == [] == _holding.entered


def test_the_environment_is_as_before_after_claims_that_nobody_has_any_more(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
        patch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
        before = dict(os.environ)
        for _ in range(4):
            in_two_words()
        with tholepin.claim(1, ids="uuid") as kept:
            in_two_words()
        assert kept.released and os.environ["THOLE_CLAIM"] == kept.id and len(claims()) == 1
        tholepin.release()
        assert claims() == [] and dict(os.environ) == before


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_of_claims_of_the_same_gpus_shown_in_different_ways_the_last_that_ends_frees_them(order):
    before = dict(os.environ)
    same = [tholepin.claim(1), tholepin.claim(1, ids="uuid"), tholepin.claim(1, ids="index")]
    for number in order:
        assert len(claims()) == 1
        same[number].release()
    assert claims() == [] and dict(os.environ) == before


def test_a_claim_out_of_one_that_is_shown_otherwise_outlives_those_around_it():
    before = dict(os.environ)
    outer, again = tholepin.claim(2), tholepin.claim(2, ids="uuid")
    inner = tholepin.claim(1)
    outer.release()
    again.release()
    assert len(claims()) == 2 and inner.env.items() <= os.environ.items(), "all of the outer one, while it is within"
    inner.release()
    assert claims() == [] and dict(os.environ) == before


def test_the_last_of_equal_shares_frees_it_and_a_smaller_one_is_its_own():
    before = dict(os.environ)
    same = [tholepin.claim(1, **SHARE) for _ in range(4)]
    assert len({claim.id for claim in same}) == 1 and all(claim.env.items() <= os.environ.items() for claim in same)
    with tholepin.claim(1, share=True, memory="4G") as part:
        assert part.id.startswith(same[0].id + "/")
    for claim in same[1:] + same[:1]:
        assert not claim.released and [entry["memory_mib"] for entry in claims()] == [10240]
        claim.release()
    assert claims() == [] and dict(os.environ) == before
