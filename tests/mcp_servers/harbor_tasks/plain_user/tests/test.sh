#!/bin/bash
file=/srv/work/report.txt
if [ "$(id -un)" = root ] && [ "$(stat -c %U $file)" = worker ] &&
    [ "$(tr '\n' '|' < $file)" = "worker|/srv/work|good morning|$SECRET_WORD|" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    cat $file
    echo 0 > /logs/verifier/reward.txt
fi
