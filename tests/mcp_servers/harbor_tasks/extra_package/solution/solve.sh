#!/bin/bash
cat > /app/report.py <<'END'
from tabulate import tabulate


def report(rows):
    return tabulate(rows, headers="firstrow", tablefmt="github")
END
