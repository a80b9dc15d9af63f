"""This interpreter, and the command `hub` by it, as processes that import nothing of the folder they are started in.

Every process of this interpreter's is started by them: without `-P`, the folder comes first on the import path.
"""

import sys

PYTHON = (sys.executable, "-P")
HUB = (*PYTHON, "-c", "from rollouthub.cli.entry import main; main()")
