#!/bin/bash
mkdir -p /app/out
python3 /solution/words.py < /app/text.txt > /app/out/words.txt
wc -l < /app/out/words.txt > /app/out/count.txt
