#!/bin/bash
cd /app
cp /tests/test_stats.py /app/test_stats.py
if python3 -m pytest -q -p no:cacheprovider test_stats.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
