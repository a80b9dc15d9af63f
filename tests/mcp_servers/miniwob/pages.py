"""Tasks with every bad habit, on the library's own core: what a page of strangers, or an agent in it, may try."""

import shutil
from pathlib import Path

PAGE = """\
<!DOCTYPE html>
<html><head>
<link rel="stylesheet" type="text/css" href="../core/core.css">
<script src="../core/core.js"></script>
<script src="../core/jquery-ui/external/jquery/jquery.js"></script>
<script>
var genProblem = function() {{
  document.getElementById('query').textContent = 'Do it.';
  {script}
}}
window.onload = function() {{ core.startEpisode(); }}
</script>
</head><body><div id="wrap"><div id="query"></div><div id="area">{body}</div></div></body></html>
"""
BUTTON = "<button id='go' style='position:absolute; left:20px; top:80px; width:80px; height:40px'>Go</button>"
GO = "document.getElementById('go').onclick = function() {{ {} }};"
PAGES = {
    "loses": (BUTTON, GO.format("core.endEpisode(-1)")),
    "claims": (BUTTON, GO.format("core.endEpisode('much')")),
    # It shows what is typed as HTML, twice: as a page may, and as jQuery does, which runs scripts.
    "echoes": (
        "<input id='said' type='text'><div id='out'></div><div id='other'></div>",
        "document.getElementById('said').oninput = function() {"
        " document.getElementById('out').innerHTML = this.value; $('#other').html(this.value); };",
    ),
    "leads-away": (
        "<a id='far' href='loses.html'>far</a> <a id='new' href='loses.html' target='_blank'>new</a>"
        "<form id='form' action='loses.html'><input id='said' name='said' type='text'><button>send</button></form>",
        "window.here = true;",
    ),
    "hides": (
        "<div style='visibility:hidden'>SECRET-1</div><div style='opacity:0'>SECRET-2</div>"
        "<div style='font-size:0'>SECRET-3</div><div style='color:transparent'>SECRET-4</div>"
        "<div style='display:none'>SECRET-5</div>"
        "<b title='SECRET-6' data-answer='SECRET-7' aria-label='SECRET-8'>seen</b><!-- SECRET-9 -->",
        "",
    ),
    "hangs": (BUTTON, GO.format("while (true) {}")),
    "asks": (BUTTON, GO.format("alert('stop'); confirm('?'); prompt('?'); this.textContent = 'Asked'")),
    "endless": (BUTTON, "(function again() { setTimeout(again, 0); })();"),
    "crashes": (BUTTON, GO.format("throw new Error('broken: the answer is 42')")),
    "fails": ("", "throw new Error('no problem today');"),
}


def make_library(wheel: Path, folder: Path) -> Path:
    """The library with more tasks."""
    shutil.copytree(wheel / "miniwob", folder)
    pages, registration = folder / "html" / "miniwob", folder / "registration.py"
    for name, (body, script) in PAGES.items():
        (pages / f"{name}.html").write_text(PAGE.format(body=body, script=script))
    more = "".join(f'    register(id="miniwob/{name}-v1")\n' for name in PAGES)
    registration.write_text(registration.read_text() + more)
    return folder
