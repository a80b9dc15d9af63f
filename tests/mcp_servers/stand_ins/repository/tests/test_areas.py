from shapes.areas import square


def test_square():
    assert square(3) == 9
