import sys

sys.path.insert(0, "/app")


def test_a_table_is_made():
    from report import report

    assert report([["a", "b"], [1, 2]]) == "|   a |   b |\n|-----|-----|\n|   1 |   2 |"
