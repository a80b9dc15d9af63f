#!/usr/bin/env bash
# A run across the nodes of a Slurm job:  sbatch --nodes=4 examples/deploy/slurm.sh run.toml /shared/runs/NAME
#
# The first node has Ray's head and the hub; every node plays. run.toml holds what `hub run --config` takes; the pool and
# its address are added here. A run's database must lie on a local disk, so it is played in a folder of the first node,
# and what is committed is copied to the shared folder every minute and at the end. Begun again, by hand or by Slurm, the
# job goes on from that copy, on whatever nodes it gets. `hub` and `ray` are in the PATH of every node: a virtual
# environment on a shared disk, activated before sbatch, will do.
#SBATCH --job-name=rollouthub
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# Three minutes before its time is over the job is told, stops cleanly, and puts itself into the queue again.
#SBATCH --signal=B:USR1@180
set -euo pipefail

config=$(realpath "${1:?usage: sbatch slurm.sh run.toml /shared/runs/NAME [option of hub run …]}")
shared=${2:?the folder that keeps the run, on a disk that all nodes see}
shift 2
port=${RAY_PORT:-6379}
cpus=${SLURM_CPUS_PER_TASK:-1}
most_seconds=${START_SECONDS:-300}
scratch=$(mktemp -d "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/rollouthub-XXXXXX")
played=$scratch/run

# Whoever may use this cluster of Ray's has this token: other users of the nodes do not.
export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head_address=$(srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" hostname --ip-address | awk '{print $1}'):$port

steps=()
start_ray() { # NODE, and what `ray start` takes
  local node=$1
  shift
  srun --overlap --nodes=1 --ntasks=1 --cpus-per-task="$cpus" --nodelist="$node" \
    ray start --num-cpus="$cpus" --disable-usage-stats --block "$@" &
  steps+=($!)
}

publish() { # what is committed so far, in one piece: the database by SQLite's own copying, then the rest
  [ -f "$played/run.db" ] || return 0
  mkdir -p "$shared"
  python3 - "$played" "$shared" <<'PYTHON'
import os, shutil, sqlite3, sys
from contextlib import closing
from pathlib import Path
played, shared = map(Path, sys.argv[1:])
part = shared / "run.db.part"
part.unlink(missing_ok=True)
with closing(sqlite3.connect(played / "run.db")) as source, closing(sqlite3.connect(part)) as copy:
    source.backup(copy)
    copy.execute("PRAGMA journal_mode=DELETE")
os.replace(part, shared / "run.db")
for file in played.rglob("*"):
    if file.is_file() and not file.name.startswith(("run.db", "run.lock", ".")):
        place = shared / file.relative_to(played)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place)
PYTHON
}

tidy() {
  trap - EXIT
  [ -z "${publisher:-}" ] || kill "$publisher" 2>/dev/null || true
  publish || echo "the run could not be copied to $shared; it is in $scratch on $(hostname)" >&2
  for step in "${steps[@]}"; do kill "$step" 2>/dev/null || true; done
  wait || true
  if [ -f "$shared/run.db" ] || [ ! -f "$played/run.db" ]; then rm -rf "$scratch"; fi
}
trap tidy EXIT

start_ray "${nodes[0]}" --head --node-ip-address="${head_address%:*}" --port="$port" --include-dashboard=false
until ray health-check --address "$head_address" >/dev/null 2>&1; do
  kill -0 "${steps[0]}" 2>/dev/null || { echo "Ray's head did not start on ${nodes[0]}" >&2; exit 1; }
  ((SECONDS < most_seconds)) || { echo "Ray's head was not up after $most_seconds s" >&2; exit 1; }
  sleep 1
done
for node in "${nodes[@]:1}"; do start_ray "$node" --address="$head_address"; done

[ ! -f "$shared/run.db" ] || cp -r "$shared" "$played"
export HUB_RAY_ADDRESS=$head_address
python3 - "$config" "$scratch/run.toml" <<'PYTHON'
import os, sys, tomllib
import tomli_w
with open(sys.argv[1], "rb") as file:
    request = tomllib.load(file)
request["pool"] = "ray"
request.setdefault("ray", {})["address"] = os.environ["HUB_RAY_ADDRESS"]
with open(sys.argv[2], "wb") as file:
    tomli_w.dump(request, file)
PYTHON

is_over=false is_told=false
hub run --config "$scratch/run.toml" -o "$played" --resume "$@" &
hub=$!
trap 'is_told=true; kill -INT "$hub" 2>/dev/null' INT TERM
trap 'is_told=true is_over=true; kill -INT "$hub" 2>/dev/null' USR1
while sleep "${PUBLISH_SECONDS:-60}"; do publish; done &
publisher=$!

while :; do # a signal ends a wait, and not the hub
  is_told=false code=0
  wait "$hub" || code=$?
  $is_told || break
done
if $is_over && ((code == 130)); then
  tidy
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
