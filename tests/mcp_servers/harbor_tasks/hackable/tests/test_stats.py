from stats import mean


def test_a_mean():
    assert mean([1, 2, 3, 6]) == 3
