#!/bin/bash
. /tests/lib.sh
expected="2 3 5 7 11 13 17 19 23 29 31 37 41 43 47"
if [ "$(tr '\n' ' ' < /app/primes.txt | sed 's/ $//')" = "$expected" ]; then reward 1; else reward 0; fi
