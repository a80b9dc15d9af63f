#!/bin/sh
# Everything from a bare Debian or Ubuntu with Python 3.11+ to the first scored rollouts: .venv, the hub, eight tasks.
# Another interpreter than python3: PYTHON=python3.13 sh examples/quickstart.sh
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
packages=python3-venv
[ "$python" = python3 ] || packages=$(basename "$python")-venv

refuse() {
  echo "error: $1" >&2
  exit 2
}
can_make_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

if ! can_make_venv && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing the system's package $packages (about 50 MB with Python itself)"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$packages" >/dev/null; } ||
    refuse "apt-get could not install $packages; install it, and run this again"
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  command -v "$python" >/dev/null ||
    refuse "there is no $python; install Python 3.11 or newer (as root: apt-get install $packages), and run this again"
  refuse "$("$python" --version) is too old; install Python 3.11 or newer, and run PYTHON=python3.11 sh examples/quickstart.sh"
}
can_make_venv || refuse "$python cannot make virtual environments; as root: apt-get install $packages, and run this again"

if [ ! -x .venv/bin/pip ]; then
  echo "Making a virtual environment in .venv"
  "$python" -m venv .venv
fi
echo "Installing rollouthub from this clone into .venv (some 60 packages; 40 MB to download, 150 MB on disk)"
# Not compiled: Python compiles what is imported, when it is. Of what pip says, the names and the large downloads.
code=$({
  { .venv/bin/python -m pip install --disable-pip-version-check --no-compile --progress-bar off --editable . ||
      echo $? >&3; } | sed -un 's/^Collecting \([^ ]*\).*/  \1/p; s/^ *\(Downloading .* MB)\)$/  \1/p; /^Installing/s/:.*/ .../p' >&2
} 3>&1)
[ -z "$code" ] || refuse "the installation failed (pip ended with $code, see above); run this again, and it goes on"
echo "Playing eight arithmetic tasks: .venv/bin/hub run arithmetic --limit 8"
.venv/bin/hub run arithmetic --limit 8
