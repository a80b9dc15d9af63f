"""The style sheet of cards: light or dark as the page is, readable on a phone and on paper.

Every rule is below `.cards`, so that a report, a page and a notebook can take it beside their own.
"""

_LIGHT = """--ink: #182033; --soft: #5a6478; --line: #e1e5ee; --card: #fff; --code: #f3f5f9; --accent: #2f5fd0;
  --good: #17703f; --good-page: #e2f4e9; --bad: #b3352b; --bad-page: #fbe9e7; --warn: #855700; --warn-page: #fdf1d8;
  --agent-rule: #2f5fd0; --user-rule: #1c8f6a; --system-rule: #8a94a8; --tool-rule: #b58900; --person-rule: #a63fa8;
  --judge-rule: #a63fa8; --word: #8a2fa0; --string: #1c6b45; --figure: #a34a00; --remark: #6a7386;
  --h1: #f3f7df; --h2: #f2f0b8; --h3: #f8e08e; --h4: #fbc978; --h5: #fbab6e; --h6: #f78d6c; --h7: #f0696b;
  --heat-ink: #182033;"""
_DARK = """--ink: #e6eaf3; --soft: #9aa5ba; --line: #2b3446;
  --card: #181e2a; --code: #111722; --accent: #8ab0ff; --good: #72d6a0; --good-page: #14301f; --bad: #ff9c92;
  --bad-page: #3a1d1b; --warn: #f2c66d; --warn-page: #342812;
  --agent-rule: #7ea6ff; --user-rule: #4fd0a3; --system-rule: #7c879d; --tool-rule: #d8bf4a; --person-rule: #df8be0;
  --judge-rule: #df8be0; --word: #d6a2f2; --string: #8fd6ae; --figure: #f0b27a; --remark: #8c97ab;
  --h1: #23301f; --h2: #37391a; --h3: #4d4314; --h4: #644514; --h5: #7a431a; --h6: #8f3c22; --h7: #a3312f;
  --heat-ink: #f4f6fb;"""
_COLOURS = f"""
.cards {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ .cards {{ {_DARK} }} }}
"""
_FRAME = """
.cards { color: var(--ink); font: 15px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif;
  overflow-wrap: anywhere; text-align: left; }
.cards * { box-sizing: border-box; }
.cards p { margin: .35rem 0; } .cards .text { white-space: pre-wrap; } .cards .soft { color: var(--soft); }
.cards span.soft, .cards .facts { color: var(--soft); font-size: .84rem; }
.cards a { color: var(--accent); }
.cards .turn { margin: 0 0 1.5rem; scroll-margin-top: 4rem; }
.cards .turn-head { display: flex; flex-wrap: wrap; align-items: baseline; gap: .15rem .7rem; margin: 0 0 .35rem;
  padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
.cards .turn-head h3 { margin: 0; font-size: .95rem; font-weight: 650; }
.cards .turn-head a { color: inherit; text-decoration: none; }
.cards .turn-head a:hover, .cards .turn-head a:focus-visible { text-decoration: underline; }
.cards summary .turn-head { display: inline-flex; vertical-align: top; margin: 0; border: 0; color: var(--ink); }
.cards details[open] > summary .gist { display: none; } .cards > .fields { margin-bottom: 1.2rem; }
.cards .turn:target > .turn-head { border-color: var(--accent); box-shadow: 0 1px 0 var(--accent); }
.cards .seat { font-weight: 600; font-size: .84rem; color: var(--agent-rule); }
.cards .chip { border-radius: 1rem; padding: 0 .55rem; font-size: .78rem; font-weight: 600; white-space: nowrap; }
.cards .bad { color: var(--bad); background: var(--bad-page); }
.cards .card { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .85rem; margin: .65rem 0; min-width: 0; }
.cards .who { color: var(--soft); font-size: .78rem; font-weight: 650; letter-spacing: .02em; margin-right: .6rem; }
.cards .assistant { border-color: var(--agent-rule); } .cards .assistant > div > .who { color: var(--agent-rule); }
.cards .user { border-color: var(--user-rule); } .cards .user > div > .who { color: var(--user-rule); }
.cards .system { border-color: var(--system-rule); } .cards .thinking { border-color: var(--agent-rule);
  border-left-style: dotted; } .cards .thinking .prose { color: var(--soft); }
.cards .tool { border-color: var(--tool-rule); } .cards .tool.error { border-color: var(--bad); }
.cards .person { border-color: var(--person-rule); border-left-style: double; border-left-width: 5px; }
.cards .judge { border-color: var(--judge-rule); border-left-style: dashed; }
.cards .note { border: 0; padding: 0; font-size: .87rem; }
.cards summary { cursor: pointer; color: var(--accent); width: fit-content; font-size: .87rem; padding: .1rem 0; }
.cards .raw > summary, .cards .rest > summary { font-size: .8rem; }
.cards .rest { margin-top: -.15rem; }
"""
_TEXT = """
.cards .prose > :first-child { margin-top: 0; } .cards .prose > :last-child { margin-bottom: .1rem; }
.cards .prose { max-width: 52rem; }
.cards .heading { font-weight: 680; margin: .8rem 0 .3rem; } .cards .heading.h1 { font-size: 1.15em; }
.cards .heading.h2 { font-size: 1.07em; }
.cards ul, .cards ol { margin: .35rem 0; padding-left: 1.5rem; } .cards li > p { margin: .15rem 0; }
.cards blockquote { margin: .4rem 0; padding-left: .8rem; border-left: 2px solid var(--line); color: var(--soft); }
.cards hr { border: 0; border-top: 1px solid var(--line); margin: .8rem 0; }
.cards code, .cards pre { font: .86em/1.55 ui-monospace, SFMono-Regular, 'DejaVu Sans Mono', Menlo, Consolas,
  monospace; }
.cards pre { white-space: pre-wrap; background: var(--code); color: var(--ink); border: 0; border-radius: .45rem;
  padding: .55rem .75rem; margin: .3rem 0; max-width: 100%; max-height: none; overflow: clip;
  tab-size: 4; }
.cards pre code { font-size: 1em; } .cards :not(pre) > code { background: var(--code); border-radius: .3rem;
  padding: .05rem .3rem; }
.cards .label { color: var(--soft); font-size: .76rem; font-weight: 600; margin: .35rem 0 -.15rem; }
.cards .label span { font-weight: 400; margin-left: .5rem; }
.cards .k { color: var(--word); } .cards .s { color: var(--string); } .cards pre .n { color: var(--figure); }
.cards .c { color: var(--remark); font-style: italic; }
.cards .add { color: var(--good); background: var(--good-page); }
.cards .del { color: var(--bad); background: var(--bad-page); }
.cards .wide { overflow-x: auto; margin: .4rem 0; } .cards table { border-collapse: collapse; font-size: .88rem;
  width: auto; }
.cards th, .cards td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; background: none; }
.cards th { color: var(--soft); font-weight: 600; } .cards td.n, .cards th.n { text-align: right; white-space: nowrap;
  overflow-wrap: normal; font-variant-numeric: tabular-nums; color: inherit; }
.cards .fields { display: grid; grid-template-columns: fit-content(14rem) 1fr; gap: .2rem .9rem; margin: .3rem 0; }
.cards dt { color: var(--soft); font-size: .86rem; font-weight: 400; } .cards dd { margin: 0; min-width: 0; }
.cards img { display: block; max-width: min(100%, 34rem); max-height: 26rem; border-radius: .4rem;
  border: 1px solid var(--line); background: #fff; }
"""
_CALLS = """
.cards .call-head { display: flex; flex-wrap: wrap; align-items: baseline; gap: .1rem .6rem; }
.cards .call-head .raw { margin-left: auto; } .cards .call-head .raw[open] { width: 100%; }
.cards .call-head .who { margin-right: 0; } .cards .call-head .name { font-weight: 650; background: none; padding: 0; }
.cards .status { font-size: .8rem; font-weight: 600; } .cards .status.ok { color: var(--good); }
.cards .status.error { color: var(--bad); } .cards .status.not-run { color: var(--warn); }
.cards .result { border-top: 1px dashed var(--line); margin-top: .35rem; padding-top: .1rem; }
.cards .result .label { margin: .2rem 0 0; }
.cards .verdict { border: 1px solid var(--line); border-left: 5px solid var(--soft); border-radius: .6rem;
  background: var(--card); padding: .8rem 1rem; margin: 1.2rem 0; scroll-margin-top: 4rem; }
.cards .verdict > header { display: flex; flex-wrap: wrap; gap: .2rem .9rem; align-items: baseline; }
.cards .verdict b { font-size: 1.15rem; } .cards .verdict-mark { font-weight: 700; }
.cards .verdict.t-green { border-left-color: var(--good); } .cards .verdict-mark.t-green { color: var(--good); }
.cards .verdict.t-yellow { border-left-color: var(--warn); } .cards .verdict-mark.t-yellow { color: var(--warn); }
.cards .verdict.t-red, .cards .verdict.t-magenta { border-left-color: var(--bad); }
.cards .verdict-mark.t-red, .cards .verdict-mark.t-magenta { color: var(--bad); }
.cards .part { margin-top: .7rem; } .cards h4 { margin: 0 0 .1rem; font-size: .84rem; color: var(--soft);
  font-weight: 650; } .cards .fault h4 { color: var(--bad); }
"""
_SMALL_AND_PAPER = """
@media (max-width: 40rem) { .cards .card { padding-left: .6rem; } .cards pre { padding: .45rem .55rem; }
  .cards .fields { grid-template-columns: fit-content(7rem) 1fr; column-gap: .6rem; }
  .cards ul, .cards ol { padding-left: 1.15rem; } }
@media print { .cards { font-size: 10pt; } .cards pre, .cards .add, .cards .del { background: none; }
  .cards pre { border: 1px solid #ccc; } .cards .turn-head, .cards .call-head { break-after: avoid; }
  .cards tr, .cards img { break-inside: avoid; } .cards .wide { overflow: visible; } .cards .raw { display: none; }
  .cards details.rest::details-content { content-visibility: visible; height: auto; }
  .cards details.rest > summary { display: none; } }
"""
STYLE = _COLOURS + _FRAME + _TEXT + _CALLS + _SMALL_AND_PAPER
NOTEBOOK_STYLE = f"""{STYLE}
body[data-jp-theme-light=true] .cards, body.vscode-light .cards {{ {_LIGHT} }}
body[data-jp-theme-light=false] .cards, body.vscode-dark .cards {{ {_DARK} }}
.cards {{ max-width: 60rem; font-size: 14px; }} .cards img {{ max-height: 12rem; }}
"""
"""The same for a notebook, which has a theme of its own; pictures are thumbnails."""
