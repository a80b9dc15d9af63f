#!/bin/sh
printf 'ada\nlin\nmia\n' | cmp -s - /app/sorted.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
