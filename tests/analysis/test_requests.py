import numpy as np
import pytest

from campaigns.analysis.requests import RequestTable, concatenate
from tests.analysis.tables import columns, table


def one(**values: object) -> RequestTable:
    row = {
        "outcome": "ok",
        "t_due_ns": 0,
        "t_sent_ns": 5e6,
        "t_first_ns": 435e6,
        "t_last_ns": 465e6,
        "t_end_ns": 466e6,
        "output_tokens": 2,
    }
    return RequestTable.from_columns({name: [value] for name, value in (row | values).items()})


def test_latencies_of_one_request() -> None:
    request = one()
    assert request.ttft_ms == pytest.approx([430])
    assert request.tpot_ms == pytest.approx([30])
    assert request.e2e_ms == pytest.approx([461])


def test_open_loop_counts_the_wait_in_the_client() -> None:
    cols = {"outcome": ["ok"], "t_due_ns": [0], "t_sent_ns": [5e6], "t_first_ns": [435e6], "t_end_ns": [466e6]}
    request = RequestTable.from_columns(cols, open_loop=True)
    assert request.ttft_ms == pytest.approx([435])
    assert request.e2e_ms == pytest.approx([466])


def test_several_tokens_in_a_frame_still_give_the_time_per_token() -> None:
    assert one(t_first_ns=200e6, t_last_ns=524e6, output_tokens=40).tpot_ms == pytest.approx([324 / 39])


@pytest.mark.parametrize("tokens", [0, 1, None])
def test_no_time_per_token_below_two_tokens(tokens: int | None) -> None:
    assert np.isnan(one(output_tokens=tokens).tpot_ms).all()


def test_output_in_one_piece_shows_no_time_per_token() -> None:
    assert np.isnan(one(t_first_ns=9e9, t_last_ns=9e9, output_tokens=443).tpot_ms).all()


def test_a_timeout_is_longer_than_anything() -> None:
    request = one(outcome="timeout", t_first_ns=None)
    assert np.isposinf([request.ttft_ms[0], request.tpot_ms[0], request.e2e_ms[0]]).all()


@pytest.mark.parametrize("outcome", ["refused", "http_error", "connect_error", "stream_error"])
def test_a_failed_request_has_no_latency(outcome: str) -> None:
    request = one(outcome=outcome)
    assert np.isnan([request.ttft_ms[0], request.tpot_ms[0], request.e2e_ms[0]]).all()


def test_a_request_that_was_cut_off_keeps_its_ttft_and_is_longer_than_seen() -> None:
    request = one(outcome="cancelled")
    assert request.ttft_ms == pytest.approx([430])
    assert np.isposinf(request.e2e_ms).all()
    assert request.failure_pct is None


def test_negative_none_and_nan_times_are_missing() -> None:
    request = RequestTable.from_columns(
        {"outcome": ["ok"] * 3, "t_sent_ns": [0, 0, 0], "t_first_ns": [-1, None, np.nan]}
    )
    assert np.isnan(request.ttft_ms).all()


def test_outcomes_by_name_or_index() -> None:
    by_name = RequestTable.from_columns({"outcome": ["ok", "cancelled"]})
    by_index = RequestTable.from_columns({"outcome": np.array([0, 6])})
    assert by_name.counts == by_index.counts


@pytest.mark.parametrize(
    ("cols", "says"),
    [
        ({"outcome": ["fine"]}, "unknown outcome fine"),
        ({"outcome": [9]}, "0 to 6"),
        ({"t_sent_ns": [1]}, "'outcome'"),
        ({"outcome": ["ok"], "t_sent_ns": [1, 2]}, "unequal length: t_sent_ns"),
    ],
)
def test_bad_columns_are_named(cols: dict[str, list[object]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RequestTable.from_columns(cols)


def test_an_empty_log_is_an_empty_table() -> None:
    empty = RequestTable.from_columns({"outcome": []})
    assert len(empty.cohort()) == 0
    assert empty.failure_pct is None


def test_classes_and_cohort_select_rows() -> None:
    requests = table(n=40)
    parts = [requests.of_class(name) for name in requests.class_names]
    assert sum(len(part) for part in parts) == 40
    assert len(requests.of_class("unknown")) == 0
    assert requests.cohort().measured.all()


def test_pooled_segments_keep_every_latency_and_the_order() -> None:
    first, second = table(n=30), table(n=20, seed=2)
    both = concatenate([first, second])
    assert len(both) == 50
    np.testing.assert_allclose(both.ttft_ms, np.concatenate([first.ttft_ms, second.ttft_ms]))
    assert both.t_sent_ns[30:].min() >= first.t_end_ns.max()


def test_pooling_joins_classes_by_name() -> None:
    cols = columns(n=20)
    cols["class"] = np.full(20, "zebra", dtype=object)
    both = concatenate([table(n=20), RequestTable.from_columns(cols)])
    assert len(both.of_class("zebra")) == 20


def test_open_and_closed_loop_are_not_pooled() -> None:
    with pytest.raises(ValueError, match="cannot be pooled"):
        concatenate([table(n=5), RequestTable.from_columns(columns(n=5), open_loop=True)])


def test_gaps_belong_to_their_request_through_selection() -> None:
    requests = RequestTable.from_columns(
        {"outcome": ["ok", "timeout", "ok"], "measured": [False, True, True], "itl_ns": [[1e6], [9e6], [2e6, 3e6]]}
    )
    values, rows = requests.gaps()
    assert values.tolist() == [1, 2, 3]
    assert rows.tolist() == [0, 2, 2]
    assert requests.cohort().gaps()[0].tolist() == [2, 3]
    assert concatenate([requests, requests]).gaps()[0].tolist() == [1, 2, 3, 1, 2, 3]


def test_hidden_thoughts_show_no_time_per_token() -> None:
    columns = {
        "outcome": ["ok"] * 3,
        "t_sent_ns": [0] * 3,
        "t_first_ns": [180e6, 9000e6, 9000e6],
        "t_last_ns": [9020e6] * 3,
        "t_end_ns": [9030e6] * 3,
        "t_answer_ns": [9000e6, 9000e6, None],
        "output_tokens": [443] * 3,
        "reasoning_tokens": [440, 440, None],
    }
    table = RequestTable.from_columns(columns)
    assert table.hidden_reasoning.tolist() == [False, True, False]
    assert np.isnan(table.tpot_ms).tolist() == [False, True, False]
    assert table.ttft_ms.tolist() == [180, 9000, 9000]
