#!/bin/bash
for n in $(seq 2 49); do
    is_prime=1
    for d in $(seq 2 $((n - 1))); do [ $((n % d)) -eq 0 ] && is_prime=0; done
    if [ $is_prime -eq 1 ]; then echo "$n"; fi
done > /app/primes.txt
