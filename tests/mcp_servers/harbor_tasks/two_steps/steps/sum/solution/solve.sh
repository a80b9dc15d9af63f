#!/bin/bash
[ -f /app/note.txt ] || exit 1
echo $(($(paste -sd+ /app/primes.txt))) > /app/sum.txt
