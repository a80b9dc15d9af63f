#!/bin/bash
. /tests/lib.sh
if [ "$(cat /app/sum.txt)" = "$EXPECTED_SUM" ]; then reward 1.0; else reward 0.0; fi
