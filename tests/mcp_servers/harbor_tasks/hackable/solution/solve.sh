#!/bin/bash
printf 'def mean(numbers):\n    return sum(numbers) / len(numbers)\n' > /app/stats.py
