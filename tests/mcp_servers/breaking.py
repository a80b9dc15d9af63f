"""Ways to break a sandbox from inside; each is bounded by what its container or process may have."""

from tests.mcp_servers.containers import USES_UP_MEMORY

PROGRAMS = (
    "import resource\nresource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))",
    "import os\nfor signal in (9, 15, 19):\n  os.kill(1, signal)",
    "import os\nos.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
    "import subprocess\nsubprocess.run('rm -rf /usr/bin; fork() { fork | fork & }; fork', shell=True)",
    "open('/tmp/full', 'wb').write(bytes(1 << 30))",
    "import os\nos.truncate(os.open('/tmp/sparse', 65), 3 << 40)\nall = [bytearray(1 << 30) for _ in range(9)]",
)
"""In Python, for `run_python` and for answers."""

FORKS = "fork() { fork | fork & }; fork; sleep 100"
HUNGERS = "for i in 1 2 3 4; do (while :; do perl -e '$x = \"a\" x (6 << 20); sleep 1' & done) & done; sleep 100"
SCRIPTS = (
    (USES_UP_MEMORY, "true"),
    ("rm -rf /bin/sh /bin/bash /usr/bin/sh /usr/bin/bash", "true"),
    (HUNGERS, "true", f"({HUNGERS}) > /dev/null 2>&1 &"),
    (f"({FORKS}) > /dev/null 2>&1 & sleep 1", "true", "true"),
    ("mv /lib64 /lib65; mv /usr/lib64 /usr/lib65", "true"),
    ("cd /; rm -rf /work /testbed", "true"),
    ("truncate -s 3T /sparse", "true"),
    ("head -c 200000000 /dev/zero > /full", "sleep 2", "sleep 2", "sleep 2", "sleep 2"),
    ("for signal in 9 15 19; do kill -$signal 1; done; kill -9 -1", "true"),
    ("rm answer.txt; mkfifo answer.txt",),
    ("for i in $(seq 60); do (trap '' TERM; while :; do :; done) & done; wait", "true"),
    ("chmod 0 / /work /testbed /bin/bash; rm -f /etc/passwd /etc/group", "true"),
)
"""Commands of root's, one call after the other."""

REPOSITORY_SCRIPTS = (
    ("printf 'while True:\\n    pass\\n' > shapes/__init__.py",),
    (
        f"cat > shapes/forks.sh <<'END'\n{FORKS}\nEND\n"
        "echo 'import os; os.system(\"bash shapes/forks.sh\")' > shapes/__init__.py",
    ),
    ("rm -rf shapes; mkfifo shapes",),
    ("git config core.fsmonitor 'kill -9 -1'; rm -rf .git/objects",),
)
"""The same for those who mend a repository: what they leave breaks its tests."""

STEP_SCRIPTS = (
    r"printf '#!/bin/sh\nexit 1\n' > /usr/local/bin/bash; chmod 755 /usr/local/bin/bash",
    r"cp /bin/sh /bin/dash2; printf '#!/bin/dash2\nexit 1\n' > /bin/dash; chmod 755 /bin/dash",
    "rm -f /bin/bash",
    "cd /; rm -rf /work; touch /work",
    "mkdir -p /ready /work/setup.sh/x",
    r"printf '#!/bin/sh\nexit 1\n' > /usr/local/bin/date; chmod 755 /usr/local/bin/date; rm -f /bin/date",
    "chmod 000 /bin/bash /bin/sh /bin/date; chmod 000 /work",
)
"""Commands of root's that keep a later step from beginning: its `setup.sh`, its health check, or its files."""
