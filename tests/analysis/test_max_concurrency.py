import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import isotonic_regression

from campaigns.analysis.max_concurrency import monotone

curves = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 9)), elements=st.floats(-10, 10))


@settings(max_examples=60, deadline=None)
@given(curves, st.data())
def test_the_monotone_fit_is_isotonic_regression(rows: np.ndarray, data: st.DataObject) -> None:
    weights = data.draw(arrays(np.float64, rows.shape[1], elements=st.floats(0.1, 10)))
    fit = monotone(rows, weights)
    assert (np.diff(fit, axis=1) >= -1e-9).all()
    for row, fitted in zip(rows, fit, strict=True):
        np.testing.assert_allclose(fitted, isotonic_regression(row, weights=weights).x, atol=1e-9)


@given(curves)
def test_a_monotone_curve_is_left_alone(rows: np.ndarray) -> None:
    rising = np.sort(rows, axis=1)
    np.testing.assert_allclose(monotone(rising, np.ones(rows.shape[1])), rising, atol=1e-9)
