#!/bin/sh
# `hub`, with what NAME_FILE says is in a file as NAME: secrets are mounted as files, and stand in no image and in no
# description of a container.
set -eu
for name in $(env | sed -n 's/^\([A-Z][A-Z0-9_]*_\(KEY\|TOKEN\)\)_FILE=.*/\1/p'); do
  eval "file=\$${name}_FILE"
  # shellcheck disable=SC2154  # eval sets it
  if [ ! -r "$file" ]; then
    echo "error: $name is to be read from $file, which user $(id -u) cannot read" >&2
    exit 2
  fi
  value=$(cat "$file")
  export "$name=$value"
  unset "${name}_FILE"
done
exec hub "$@"
