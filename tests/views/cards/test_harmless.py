"""Whatever models, tasks and strangers say, a page of cards runs nothing, loads nothing and leads nowhere by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub.views.cards.code_html import code_html, diff_html
from rollouthub.views.cards.prose_html import prose_html
from tests.strategies import rollouts
from tests.views.cards.shown_pages import Harmless, content_of, saying

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</pre></div></section><script>alert(1)</script>",
    "'\"><iframe src=javascript:alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](java\tscript:alert(1))",
    "[click](&#106;avascript:alert(1))",
    "[click](&#x6A;avascript&colon;alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "[click](vbscript:msgbox(1))",
    "[click](//evil.example/x)",
    "[click](/media/x)",
    "[click](file:///etc/passwd)",
    "[click]( javascript:alert(1) 'x')",
    "<javascript:alert(1)>",
    "<data:text/html;base64,PHNjcmlwdD4=>",
    "![x](http://evil.example/x.png)",
    "![x](data:image/svg+xml,<svg onload=alert(1)>)",
    '[x](http://a "onmouseover=alert(1) x")',
    '[x](http://a" onmouseover="alert(1))',
    "[x]: javascript:alert(1)\n\n[x]",
    "[![x](http://evil/y)](javascript:alert(1))",
    '```"><script>alert(1)</script>\nx\n```',
    "```js onload=alert(1)\n</code></pre><script>alert(1)</script>\n```",
    "| <script> | `|` |\n|:---:|---:|\n| <img onerror=x src=y> | **b** |",
    "# <script>\n\n> <b onclick=x>\n\n1. <a href=javascript:x>\n",
    "<!-- x --> <![CDATA[ x ]]> <?php x ?> <!DOCTYPE x>",
    "\x1b]8;;http://evil\x07link\x1b[31m\x00\u202eevil\u2066\u200b",
    "&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt; &#60;script&#62;",
    "+ <script>\n- <script>\n@@ <script>\n",
    "diff --git <script>\n+++ <img src=x onerror=y>\n",
    '{"code": "<script>alert(1)</script>\\n", "</dd><script>": "x"}',
    '[{"<b>": "<script>"}, {"<b>": "</table><script>"}]',
    "<style>*{display:none}</style><base href=//evil><meta http-equiv=refresh content=0>",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_text_wherever_it_is_said(attack: str) -> None:
    page = Harmless(content_of(saying(attack)))
    assert not {letter for letter in page.text if letter not in "\n\t" and not letter.isprintable()}


@pytest.mark.parametrize("attack", ["javascript:alert(1)", "data:text/html,x", "//evil", "/x", "file:///x"])
def test_only_harmless_addresses_are_links(attack: str) -> None:
    assert "<a" not in prose_html(f"[x]({attack}) <{attack}>")


def test_a_link_says_where_it_leads_and_tells_nobody_where_it_came_from() -> None:
    made = prose_html("[docs](https://example.org/a?b=1&c=2)")
    assert 'href="https://example.org/a?b=1&amp;c=2" title="https://example.org/a?b=1&amp;c=2"' in made
    assert 'rel="noreferrer noopener nofollow"' in made


def test_a_picture_of_elsewhere_is_its_words() -> None:
    made = prose_html("![a cat](https://evil.example/pixel.png)")
    assert "<img" not in made
    assert "[picture: a cat]" in made
    assert "evil" not in made


def test_prose_is_rendered_and_its_code_coloured() -> None:
    made = prose_html("# Head\n\n- **bold** `x`\n\n```python\nreturn 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n")
    for part in (
        '<p class="heading h1">Head</p>',
        "<strong>bold</strong> <code>x</code>",
        '<span class="k">return</span> <span class="n">1</span>',
        "<th>a</th>",
        '<td class="n">2</td>',
    ):
        assert part in made
    assert "style=" not in made


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="<>&\"'`*_[]()!#|-:\\\n x1/\x1b\u202e", max_size=200))
def test_any_text_is_harmless(text: str) -> None:
    Harmless(content_of(saying(text)))


@settings(max_examples=25, deadline=None)
@given(rollouts())
def test_any_record_makes_a_page(rollout: object) -> None:
    Harmless(content_of(rollout))  # pyright: ignore[reportArgumentType]  # the strategy makes rollouts


@given(
    st.text(alphabet="<>&\"'/*#-\\\n ab1:", max_size=200), st.sampled_from(["python", "c", "json", "sql", "bash", ""])
)
def test_coloured_code_is_the_same_text(text: str, language: str) -> None:
    for made in (code_html(text, language), diff_html(text)):
        found = Harmless(made)
        assert found.text == text
