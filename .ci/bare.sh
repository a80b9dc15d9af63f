#!/usr/bin/env bash
# Plays the README in a bare container: a distribution's base system (debootstrap's minbase) and this checkout.
#   .ci/bare.sh bookworm|trixie|noble root|user first|tests|smoke|COMMAND...
# first and tests are the README's commands, smoke is a short selection of tests, any other is a shell command in the clone;
# each tells its CPU time. root has nothing but apt; user has python3, python3-venv (or $ROLLOUTHUB_BARE_PACKAGES) and no sudo.
# What pip is told on this machine holds inside, too; tests may skip for the reasons in .ci/skips-bare and no other.
# Without a container engine it ends with 77.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=$1 who=$2
shift 2
docker info >/dev/null 2>&1 || { echo "no container engine answers: nothing is played in a bare container" >&2; exit 77; }

image=rollouthub-bare:$suite
[ "$suite" != bookworm ] || image=debian:bookworm-slim # what engine.sh makes is such a base system
if ! docker image inspect "$image" >/dev/null 2>&1; then
  echo "making the base system of $suite"
  options=(--variant=minbase)
  if [ "$suite" = noble ]; then
    # Debian's debootstrap may know no suite as new; Ubuntu's are all made by one script, which names their archive.
    scripts=/usr/share/debootstrap/scripts
    [ -e "$scripts/$suite" ] || ln -s gutsy "$scripts/$suite"
    keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg check=--no-check-gpg
    if [ -e "$keys" ]; then check=--keyring=$keys; else echo "without the keys of its archive: unverified" >&2; fi
    options+=(--components=main,universe "$check")
  fi
  root=$(mktemp -d)
  debootstrap "${options[@]}" "$suite" "$root" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; exit 1; }
  tar -C "$root" -c . | docker import - "$image" >/dev/null
  rm -rf "$root" "$root.log"
fi

# What pip is told here, as variables, with the files and folders that it names, which can be read inside.
options=(--rm -i --init --network host)
while IFS='=' read -r name value; do
  value=${value#\'} value=${value%\'}
  name=PIP_$(echo "${name##*.}" | tr a-z- A-Z_)
  case $name in
    PIP_CONSTRAINT) continue ;; # whoever follows the README has none
    PIP_CERT)
      # Elsewhere than here, where the container's own package of certificates would write.
      options+=(-v "$(realpath "$value"):/certificates.pem:ro" -e SSL_CERT_FILE=/certificates.pem)
      value=/certificates.pem
      ;;
    *)
      for word in $value; do
        case $word in
          file://*) word=$(dirname "${word#file://}") ;; # an index: its files lie beside it
          /*) ;;
          *) continue ;;
        esac
        [ ! -e "$word" ] || options+=(-v "$word:$word:ro")
      done
      ;;
  esac
  options+=(-e "$name=$value")
done < <(python3 -m pip config list | sed -n 's/^\(global\|install\|:env:\)\./x./p')

commands=()
for command in "$@"; do
  case $command in
    first) command=$(.ci/command_after main-job) ;;
    tests) command="$(.ci/command_after tests) || .ci/again \$?" ;;
    smoke) command=".venv/bin/python -m pip install -q --no-compile -e '.[dev]' && .venv/bin/python -m pytest -rs -m smoke" ;;
  esac
  commands+=("$command")
done

packages=
[ "$who" = root ] || packages=${ROLLOUTHUB_BARE_PACKAGES-python3 python3-venv}
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c |
  docker run "${options[@]}" -e CI=bare -e PACKAGES="$packages" -e WHO="$who" "$image" bash -euc '
    export DEBIAN_FRONTEND=noninteractive
    if [ -n "$PACKAGES" ]; then { apt-get update -qq; apt-get install -y -qq --no-install-recommends $PACKAGES; } >/dev/null 2>&1; fi
    useradd -m someone
    mkdir /home/someone/clone
    cd /home/someone/clone
    tar -x
    if [ "$WHO" = user ]; then chown -R someone: .; run="su someone -c"; else chown -R root: .; run="bash -c"; fi
    unset DEBIAN_FRONTEND
    TIMEFORMAT="== %U s of CPU as user, %S s in the kernel, %R s in all"
    for command in "$@"; do
      echo "== $WHO: $command"
      code=0
      time $run "$command" </dev/null || code=$?
      [ ! -d .venv ] || echo "== $(du -sm .venv | cut -f1) MB in .venv"
      [ "$code" -eq 0 ] || { echo "== exit code $code"; exit "$code"; }
    done' bare "${commands[@]}"
