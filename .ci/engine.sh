#!/usr/bin/env bash
# What the sandbox tests need: a container engine that answers, the base image, bubblewrap and Podman.
# Prints the pid of an engine that it started itself, and nothing where one answered already.
set -euo pipefail

install() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null || missing+=("$2")
}
missing=()
install dockerd docker.io
install docker docker.io
install debootstrap debootstrap
install bwrap bubblewrap
install podman podman
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null 2>&1
fi

if ! docker info >/dev/null 2>&1; then
  # An engine that was killed leaves its pid files, and whose those pids are by now nobody knows.
  forget() { # PROGRAM FILE
    if [ -f "$2" ] && ! grep -qs "^State:.[^ZX]" "/proc/$(cat "$2")/status"; then rm -f "$2"; fi
    if [ -f "$2" ] && [ "$(cat "/proc/$(cat "$2")/comm")" != "$1" ]; then rm -f "$2"; fi
  }
  forget dockerd /var/run/docker.pid
  forget containerd /var/run/docker/containerd/containerd.pid
  log=$(mktemp)
  setsid nohup dockerd >"$log" 2>&1 </dev/null &
  engine=$!
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && break
    kill -0 "$engine" 2>/dev/null || { tail -5 "$log" >&2; exit 1; }
    sleep 0.3
  done
  docker info >/dev/null 2>&1 || { tail -5 "$log" >&2; exit 1; }
  echo "$engine"
fi

if ! docker image inspect debian:bookworm-slim >/dev/null 2>&1; then
  root=$(mktemp -d)
  debootstrap --variant=minbase bookworm "$root" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; exit 1; }
  tar -C "$root" -c . | docker import - debian:bookworm-slim >/dev/null
  rm -rf "$root"
fi
