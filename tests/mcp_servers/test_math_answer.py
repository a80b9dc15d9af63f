import pytest

from rollouthub_servers.math.answer import MAX_ANSWER, find_answer
from rollouthub_servers.math.normal_form import normal, plain, words
from rollouthub_servers.math.reference import reference_answers


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", ""),
        ("  \n", ""),
        (r"so \boxed{42}.", "42"),
        (r"first \boxed{1}, no: \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and $\boxed{-2}$", "1, -2"),
        (r"\boxed{1} and again \boxed{1}", "1"),
        (r"\boxed{2}, \boxed{2}", "2"),
        (r"\fbox{7}", "7"),
        (r"\boxed {7}", "7"),
        (r"\boxed{5", ""),
        (r"\boxed{5} or is it \boxed{6", ""),
        (r"an open \boxed{ earlier on, then \boxed{6}", "6"),
        (r"\boxed{}", ""),
        ("She has 3 + 4 = 7.\n#### 7", "7"),
        ("The answer is 42.", "42"),
        ("The final answer is: **$\\frac{3}{4}$**.", r"\frac{3}{4}"),
        ("Answer: (1, 2)", "(1, 2)"),
        (r"Answer: \text{east}", r"\text{east}"),
        ("**Answer:** 12 apples", "12 apples"),
        ("The answer is that she has 12 apples left", "12"),
        ("x+1", "x+1"),
        ("$x+1$", "x+1"),
        ("= 5", "5"),
        ("east", "east"),
        ("So we get $x = 3$ and then\nthe total is $10$", "10"),
        ("She paid 3 dollars and has 1,234 left over.", "1,234"),
        ("I do not know the solution of this.", ""),
        ("<think>it is \\boxed{3}</think>It is \\boxed{4}", "4"),
        ("<think>it is \\boxed{3}", ""),
        ("<think>\\boxed{3}</think>", ""),
    ],
)
def test_the_answer_is_found_in_a_response(text: str, answer: str) -> None:
    assert find_answer(text) == answer


def test_a_box_that_holds_an_essay_is_no_answer() -> None:
    assert find_answer("\\boxed{" + "x" * (MAX_ANSWER + 1) + "}") == ""


def test_a_flood_of_boxes_is_read_from_its_end() -> None:
    assert find_answer("\\boxed{" * 50_000 + "1}") == "1"


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ("She has 5.\n#### 1,005", ("1005",)),
        (142.0, ("142",)),
        (0.5, ("0.5",)),
        (7, ("7",)),
        (["9.6\n"], ("9.6",)),
        (["0.01\n", "0.02\n"], ("0.01", "0.02")),
        (["7", "7\n"], ("7",)),
        ("$x+1$", ("x+1",)),
        (r"Thus \boxed{3}.", ("3",)),
        ("", ()),
        (None, ()),
        (True, ()),
        ([], ()),
        (["7", None], ()),
        ({"answer": 7}, ()),
        (float("nan"), ()),
    ],
)
def test_the_reference_is_read_from_whatever_form_a_data_set_keeps_it_in(
    cell: object, answers: tuple[str, ...]
) -> None:
    assert reference_answers(cell) == answers


def test_a_worked_solution_must_mark_its_answer() -> None:
    assert reference_answers("We find that it is seven.", is_solution=True) == ()
    assert reference_answers("We find #### 7", is_solution=True) == ("7",)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("4.5e33", r"4.5 \times 10^{33}"),
        ("1e-5", r"1 \times 10^{-5}"),
        ("e^2", "e^2"),
        ("2e", "2e"),
        (r"1{,}234", "1234"),
        (r"1\,234", "1234"),
        ("3 1/2", r"3\frac{1}{2}"),
        (r"0.\overline{3}", r"\frac{1}{3}"),
        (r"1.2\overline{34}", r"\frac{611}{495}"),
        (r"\textbf{5}", "5"),
        (r"\approx 5.", "5"),
        (r"5 \times 10^{14} Hz", r"5 \times 10^{14}"),
        (r"1950^\circ C", r"1950^{\circ}"),
        (r"M_{\odot}", r"M_{odot}"),
        (r"E_{1}", r"\eta_{E1}"),
        ("7.6Z", "7.6Z"),
    ],
)
def test_an_answer_is_rewritten_as_a_person_reads_it(written: str, read: str) -> None:
    assert normal(written) == read


def test_words_are_compared_in_one_spelling() -> None:
    assert words(r"\text{Evelyn}") == words("evelyn") == "evelyn"
    assert words(r"\text{(C)}") == words("(C)") == words("C") == "c"
    assert words("x+1") is None
    assert words("") is None


def test_unreadable_text_is_compared_without_its_layout() -> None:
    assert plain(r"\left( a_{1} \right)") == plain("(a_1)")
